"""Teachers that are PyTorch networks: eight hospitals with 31 votes each, every patient protected.

It needs SEDML with the extras learn and torch (docs/how-to/install.md).
python examples/torch_teacher.py
"""

import numpy as np
import torch
from torch import nn

import sedml
from sedml.learn.printed import printed_digits


class TorchTeacher:
    """A network that can vote: all that is asked of a teacher is `predict`, from samples to classes."""

    def __init__(self, network: nn.Module) -> None:
        self.network = network.eval()

    def predict(self, samples: np.ndarray) -> np.ndarray:
        with torch.inference_mode():
            scores = self.network(torch.as_tensor(samples, dtype=torch.float32))
        return scores.argmax(dim=1).numpy()


def train(images: np.ndarray, digits: np.ndarray) -> nn.Module:
    """At home, on one part of the data, which never leaves it. Any network and any training will do."""
    network = nn.Sequential(nn.Linear(256, 32), nn.ReLU(), nn.Linear(32, 10))
    optimizer = torch.optim.Adam(network.parameters(), lr=0.02)
    inputs, targets = torch.as_tensor(images, dtype=torch.float32), torch.as_tensor(digits)
    for _ in range(40):
        optimizer.zero_grad()
        nn.functional.cross_entropy(network(inputs), targets).backward()
        optimizer.step()
    return network


torch.manual_seed(0)
torch.set_num_threads(1)  # networks as small as these gain nothing from more
# Eight hospitals, each of which has split its patients into 31 parts: 248 votes, of which a patient moves one.
HOSPITALS, PARTS, PATIENTS = 8, 31, 40
drawn, digits = printed_digits(HOSPITALS * PARTS * PATIENTS + 33, np.random.default_rng(0))
images = drawn.reshape(len(drawn), 256)
private, public = np.split(np.arange(len(images)), [HOSPITALS * PARTS * PATIENTS])
samples, truth = images[public], digits[public]

teachers = [TorchTeacher(train(images[part], digits[part])) for part in np.split(private, HOSPITALS * PARTS)]
predictions = np.array([teacher.predict(samples) for teacher in teachers])

# 33 questions and this much noise are an epsilon of 1 for each patient, whatever one of the two operators does.
result = sedml.aggregate(predictions, classes=10, threshold=0.4, sigma=38.0, delta=1e-5, unit="patient", votes=PARTS)

answered, cost = result.labels >= 0, result.privacy
print(f"{result.answered} of {len(truth)} samples got a label")
print(f"{(result.labels == truth)[answered].mean():.0%} of those labels are correct")
print(f"It cost each patient an epsilon of {cost.epsilon:.2f}: {'private' if cost.epsilon <= 1 else 'not private'}.")
print("A hospital as a whole is not protected.")
