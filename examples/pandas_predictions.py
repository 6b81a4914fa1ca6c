"""Predictions in a pandas frame: named classes, named teachers, and gaps where a teacher abstains.

pip install 'sedml-pate[learn]' pandas
python examples/pandas_predictions.py
"""

import numpy as np
import pandas as pd
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import sedml

CLASSES = ["malignant", "benign"]

cancer = load_breast_cancer()
cells, diagnoses = cancer.data, np.array(CLASSES)[cancer.target]
order = np.random.default_rng(0).permutation(len(cells))
public, private = order[:69], order[69:569].reshape(25, 20)

# One column a hospital, one row a sample. A hospital that is not sure leaves a gap.
frame = pd.DataFrame(index=pd.Index(public, name="sample"))
for number, own in enumerate(private):
    model = make_pipeline(StandardScaler(), LogisticRegression()).fit(cells[own], diagnoses[own])
    votes = pd.Series(model.predict(cells[public]), index=frame.index)
    frame[f"hospital {number}"] = votes.where(model.predict_proba(cells[public]).max(axis=1) > 0.6)

# Names become numbers, and gaps become -1, which abstains. One row a teacher is what `aggregate` wants.
codes = frame.apply(lambda column: pd.Categorical(column, categories=CLASSES).codes)
result = sedml.aggregate(codes.T, classes=len(CLASSES), threshold=0.6, sigma=2.0, delta=1e-5)

# And back: a label of -1, no consensus, becomes a gap.
labels = pd.Series(pd.Categorical.from_codes(result.labels, CLASSES), index=frame.index, name="label")
truth = pd.Series(diagnoses[public], index=frame.index)
print(labels.value_counts(dropna=False).to_string())
print(f"{result.answered} of {len(truth)} samples got a label")
print(f"{(labels == truth)[labels.notna()].mean():.0%} of those are right")
