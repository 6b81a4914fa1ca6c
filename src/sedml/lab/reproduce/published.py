"""The paper's own numbers, as printed in its evaluation section; its figures print no others.

Gao et al., "SEDML: Securely and Efficiently Harnessing Distributed Knowledge in Machine Learning". Measured there
with Python on an AMD Ryzen 5 4600H with 16 GB of memory, averages of 10 runs.
"""

from __future__ import annotations

TEACHERS = 250
THRESHOLD = 0.6
"""The share of the teachers that must agree, unless stated otherwise."""

SECONDS = {"highest": 23.249, "threshold": 2.5119, "label": 21.575, "total": 47.3359}
"""Table 1: 1,000 samples, 10 classes."""

KB = {"highest": 29_628, "threshold": 3_292, "label": 28_201, "total": 61_121}
"""Table 2: between the servers."""

SAMPLE_SECONDS = {1000: 47.336, 5000: 231.720}
"""The ends of the scalability figure; in between, and over 10 to 50 classes, it says that time is linear."""

ACCURACY_EPSILONS = (2.04, 5.035, 8.03)
"""What one query costs, by the paper's theorem."""

DELTAS = {"mnist": 1e-5, "svhn": 1e-6}

THRESHOLD_EPSILON = 8.02
THRESHOLD_QUERIES = 9000
BEST_THRESHOLDS = {"mnist": 0.5, "svhn": 0.6}
