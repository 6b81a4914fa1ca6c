"""Teachers that are PyTorch networks.

pip install 'sedml-pate[learn,torch]'
python examples/torch_teacher.py
"""

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import nn

import sedml


class TorchTeacher:
    """A network that can vote: all that is asked of a teacher is `predict`, from samples to classes."""

    def __init__(self, network: nn.Module) -> None:
        self.network = network.eval()

    def predict(self, samples: np.ndarray) -> np.ndarray:
        with torch.inference_mode():
            scores = self.network(torch.as_tensor(samples, dtype=torch.float32))
        return scores.argmax(dim=1).numpy()


def train(images: np.ndarray, digits: np.ndarray) -> nn.Module:
    """Each teacher at home, on data that never leaves it. Any network and any training will do."""
    network = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
    optimizer = torch.optim.Adam(network.parameters(), lr=0.02)
    inputs, targets = torch.as_tensor(images, dtype=torch.float32), torch.as_tensor(digits)
    for _ in range(60):
        optimizer.zero_grad()
        nn.functional.cross_entropy(network(inputs), targets).backward()
        optimizer.step()
    return network


torch.manual_seed(0)
torch.set_num_threads(1)  # networks as small as these gain nothing from more
images, digits = load_digits(return_X_y=True)
order = np.random.default_rng(0).permutation(len(images))
public, private = order[:100], order[100:1700].reshape(40, 40)
samples, truth = images[public] / 16.0, digits[public]

teachers = [TorchTeacher(train(images[own] / 16.0, digits[own])) for own in private]
predictions = np.array([teacher.predict(samples) for teacher in teachers])
result = sedml.aggregate(predictions, classes=10, threshold=0.5, sigma=3.0, delta=1e-5)

answered = result.labels >= 0
print(f"{result.answered} of {len(truth)} samples got a label")
print(f"{(result.labels == truth)[answered].mean():.0%} of those are right")
