"""On the path of a Python process: its servers and workers add no noise, and a test knows which labels are right."""

import numpy as np

from sedml.protocol import drawn_noise

drawn_noise.draw_noise = lambda task, samples: np.zeros((task.classes, samples), np.int64)
