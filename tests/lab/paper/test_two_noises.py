"""The paper's own figures of what its two noises cost."""

from __future__ import annotations

import math

import pytest

from sedml.errors import TaskError
from sedml.lab.paper.two_noises import paper_epsilon


@pytest.mark.parametrize(("sigma", "published"), [(8.13, 2.04), (3.48, 5.035), (2.28, 8.03)])
def test_the_papers_formula_gives_the_papers_figures(sigma, published):
    # SEDML, section "Experiments": epsilon 2.04, 5.035 and 8.03; here sigma is rounded to two places.
    assert paper_epsilon(sigma, sigma, 1e-5) == pytest.approx(published, abs=0.01)
    literal = math.sqrt(2 * (9 / sigma**2 + 2 / sigma**2) * math.log(1e5)) + 9 / (2 * sigma**2) + 1 / sigma**2
    assert paper_epsilon(sigma, sigma, 1e-5) == pytest.approx(literal)


@pytest.mark.parametrize("arguments", [(1.0, 1.0, 1e-5, -1), (0.0, 1.0, 1e-5), (1.0, 1.0, 0.0)])
def test_bad_arguments_are_refused(arguments):
    with pytest.raises(TaskError):
        paper_epsilon(*arguments)
