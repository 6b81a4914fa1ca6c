"""Predictions in a pandas frame: named classes, named hospitals, and gaps where a model abstains.

It needs SEDML with the extra learn (docs/how-to/install.md), and pandas.
python examples/pandas_predictions.py
"""

import numpy as np
import pandas as pd
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import sedml

CLASSES = ["cold", "influenza", "pneumonia"]
MEASURED = ["age", "temperature", "heart_rate", "oxygen", "crp", "cough_days"]
TYPICAL = np.array([[40, 37.2, 78, 97.5, 10, 4], [44, 38.7, 92, 96.5, 35, 5], [62, 38.6, 98, 92.5, 110, 8]])
rng = np.random.default_rng(0)


def people(number: int) -> pd.DataFrame:
    """Made up; a table of yours has the same shape."""
    diagnosis = rng.choice(3, number, p=[0.45, 0.35, 0.2])
    table = pd.DataFrame(TYPICAL[diagnosis] + rng.normal(0, [15, 0.5, 9, 1.5, 25, 2.2], (number, 6)), columns=MEASURED)
    return table.assign(diagnosis=np.array(CLASSES)[diagnosis])


# Eight hospitals, each of which has split its 1,000 patients into 31 parts: 248 votes, of which a patient moves one.
HOSPITALS, PARTS = 8, 31
public = people(100)

# One column a model, one row a sample. A model that is not sure leaves a gap.
votes = {}
for hospital in range(1, HOSPITALS + 1):
    patients = people(1000)
    for part, own in patients.groupby(np.arange(1000) % PARTS):
        model = make_pipeline(StandardScaler(), LogisticRegression()).fit(own[MEASURED], own["diagnosis"])
        sure = model.predict_proba(public[MEASURED]).max(axis=1) > 0.6
        votes[f"hospital {hospital}", part] = pd.Series(model.predict(public[MEASURED])).where(sure)
frame = pd.DataFrame(votes)

# Names become numbers, and gaps become -1, which abstains. One row a vote is what `aggregate` wants.
codes = frame.apply(lambda column: pd.Categorical(column, categories=CLASSES).codes)
# 100 questions and this much noise are an epsilon of 1 for each patient, whatever one of the two operators does.
result = sedml.aggregate(codes.T, classes=3, threshold=0.5, sigma=66.0, delta=1e-5, unit="patient", votes=PARTS)

# And back: a label of -1, no consensus, becomes a gap.
labels = pd.Series(pd.Categorical.from_codes(result.labels, CLASSES), name="label")
truth, cost = public["diagnosis"], result.privacy
print(labels.value_counts(dropna=False).to_string())
print(f"{result.answered} of {len(truth)} samples got a label")
print(f"{(labels == truth)[labels.notna()].mean():.0%} of those labels are correct")
print(f"It cost each patient an epsilon of {cost.epsilon:.2f}: {'private' if cost.epsilon <= 1 else 'not private'}.")
print("A hospital as a whole is not protected.")
