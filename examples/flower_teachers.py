"""Coming from Flower: every client of an app that you have becomes a teacher.

pip install 'sedml-pate[learn]' flwr
python examples/flower_teachers.py
"""

import numpy as np
from flwr.client import Client, NumPyClient
from flwr.clientapp import ClientApp
from flwr.app import Context
from sklearn.datasets import load_digits

import sedml

images, digits = load_digits(return_X_y=True)
images = images / 16.0
order = np.random.default_rng(0).permutation(len(images))
public, partitions = order[:100], order[100:1700].reshape(40, 40)

# What you have: a client, and the app that Flower runs. Both stay as they are.


class Hospital(NumPyClient):
    """A linear model, trained on the data of one hospital; its weights go to Flower's server in every round."""

    def __init__(self, partition: int) -> None:
        self.images, self.digits = images[partitions[partition]], digits[partitions[partition]]
        self.weights, self.bias = np.zeros((64, 10)), np.zeros(10)

    def fit(self, parameters: list, config: dict) -> tuple:
        self.weights, self.bias = (np.array(one) for one in parameters)
        for _ in range(config["epochs"]):
            error = self.scores(self.images) - np.eye(10)[self.digits]
            self.weights -= self.images.T @ error / len(self.digits)
            self.bias -= error.mean(axis=0)
        return [self.weights, self.bias], len(self.digits), {}

    def scores(self, samples: np.ndarray) -> np.ndarray:
        raised = np.exp(samples @ self.weights + self.bias)
        return raised / raised.sum(axis=1, keepdims=True)


def client_fn(context: Context) -> Client:
    return Hospital(int(context.node_config["partition-id"])).to_client()


app = ClientApp(client_fn)

# What is new: a client trains once, and its weights stay at home. Only its votes go out, as shares.


class FlowerTeacher:
    """A client that can vote: all that is asked of a teacher is `predict`, from samples to classes."""

    def __init__(self, client: Hospital) -> None:
        client.fit([client.weights, client.bias], {"epochs": 100})
        self.client = client

    def predict(self, samples: np.ndarray) -> np.ndarray:
        return self.client.scores(samples).argmax(axis=1)


samples, truth = images[public], digits[public]
teachers = [FlowerTeacher(Hospital(partition)) for partition in range(len(partitions))]
predictions = np.array([teacher.predict(samples) for teacher in teachers])
result = sedml.aggregate(predictions, classes=10, threshold=0.5, sigma=3.0, delta=1e-5)

answered = result.labels >= 0
print(f"{result.answered} of {len(truth)} samples got a label")
print(f"{(result.labels == truth)[answered].mean():.0%} of those are right")
