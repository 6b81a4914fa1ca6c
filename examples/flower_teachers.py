"""Coming from Flower: every client of an app that you have becomes a teacher, with a vote for each part of its data.

It needs SEDML with the extra learn (docs/how-to/install.md), and flwr.
python examples/flower_teachers.py
"""

import numpy as np
from flwr.client import Client, NumPyClient
from flwr.clientapp import ClientApp
from flwr.app import Context

import sedml
from sedml.learn.printed import printed_digits

# Eight hospitals, each of which has split its patients into 31 parts: 248 votes, of which a patient moves one.
HOSPITALS, PARTS, PATIENTS = 8, 31, 40
drawn, digits = printed_digits(HOSPITALS * PARTS * PATIENTS + 33, np.random.default_rng(0))
images = drawn.reshape(len(drawn), 256)
private, public = np.split(np.arange(len(images)), [HOSPITALS * PARTS * PATIENTS])
samples, truth = images[public], digits[public]
partitions = private.reshape(HOSPITALS, PARTS, PATIENTS)

# What you have: a client, and the app that Flower runs. Both stay as they are.


class Hospital(NumPyClient):
    """A linear model, trained on some data of a hospital; its weights go to Flower's server in every round."""

    def __init__(self, own: np.ndarray) -> None:
        self.images, self.digits = images[own], digits[own]
        self.weights, self.bias = np.zeros((256, 10)), np.zeros(10)

    def fit(self, parameters: list, config: dict) -> tuple:
        self.weights, self.bias = (np.array(one) for one in parameters)
        for _ in range(config["epochs"]):
            error = self.scores(self.images) - np.eye(10)[self.digits]
            self.weights -= 0.2 * self.images.T @ error / len(self.digits)
            self.bias -= 0.2 * error.mean(axis=0)
        return [self.weights, self.bias], len(self.digits), {}

    def scores(self, samples: np.ndarray) -> np.ndarray:
        raised = np.exp(samples @ self.weights + self.bias)
        return raised / raised.sum(axis=1, keepdims=True)


def client_fn(context: Context) -> Client:
    return Hospital(partitions[int(context.node_config["partition-id"])].ravel()).to_client()


app = ClientApp(client_fn)

# What is new: a client trains once on each part of its data, and the weights stay at home. Only votes leave, as shares.


class FlowerTeacher:
    """A client that can vote: all that is asked of a teacher is `predict`, from samples to classes."""

    def __init__(self, client: Hospital) -> None:
        client.fit([client.weights, client.bias], {"epochs": 100})
        self.client = client

    def predict(self, samples: np.ndarray) -> np.ndarray:
        return self.client.scores(samples).argmax(axis=1)


teachers = [FlowerTeacher(Hospital(part)) for parts in partitions for part in parts]
predictions = np.array([teacher.predict(samples) for teacher in teachers])

# 33 questions and this much noise are an epsilon of 1 for each patient, whatever one of the two operators does.
result = sedml.aggregate(predictions, classes=10, threshold=0.4, sigma=38.0, delta=1e-5, unit="patient", votes=PARTS)

answered, cost = result.labels >= 0, result.privacy
print(f"{result.answered} of {len(truth)} samples got a label")
print(f"{(result.labels == truth)[answered].mean():.0%} of those labels are correct")
print(f"It cost each patient an epsilon of {cost.epsilon:.2f}: {'private' if cost.epsilon <= 1 else 'not private'}.")
print("A hospital as a whole is not protected.")
