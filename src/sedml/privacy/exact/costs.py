"""What a sample costs at one Rényi order: the check, and the label if there is one, charged together.

Write `check` for D_α of the check's bit and `label` for D_α of the noisy argmax, as bounded by the modules beside
this one. All charges below satisfy, for every k and both orders of the neighbours,

    t0(k) exp(-(α-1) unanswered) + t1(k) exp(-(α-1) (answered - label)) <= 1,

and a sequence of samples costs at most the sum of its charges: theorem 1 of docs/privacy.md. Which of them a job is
charged by must be settled before its first bit is opened, and may depend on all that was released before.

- plain: a check costs `check`, a label `label` on top.
- joint: J for every sample. J is hardly more than `label`: where the check is costly, the sample is answered half of
  the time.
- by answer: an unanswered sample pays what it costs in the view of a server, which sees the bit and knows its own
  noise, more than the requester's share of it; so an answered one may pay less than plain.

What a ledger charges covers the requester and, each server by itself: the dearer of the
two, for every sample.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from sedml.privacy.exact.argmax import argmax_divergence
from sedml.privacy.exact.check import check_divergence, yes_charge

__all__ = ["SampleCost", "label_costs", "ledger_costs"]


@dataclass(frozen=True)
class SampleCost:
    """D_α charged for a sample without and with a label."""

    unanswered: float
    answered: float

    def job(self, samples: int, answered: int) -> float:
        """The divergence of a job."""
        # In this order a joint charge is the same, to the last bit, whatever was answered.
        return samples * self.unanswered + answered * (self.answered - self.unanswered)


def label_costs(
    sigma1: float, sigma2: float, parts: int, order: float, label: float | None = None
) -> tuple[SampleCost, SampleCost]:
    """Plain and joint, for whoever sees bits and labels; noise of `parts` equal parts protects.

    A guess of what a `label` costs saves the time to compute it.
    """
    one, two = sigma1 / math.sqrt(parts), sigma2 / math.sqrt(parts)
    if label is None:
        label = argmax_divergence(two, parts, order)
    check, joint = check_divergence(one, parts, order), check_divergence(one, parts, order, label)
    return SampleCost(check, check + label), SampleCost(joint, joint)


def ledger_costs(sigma1: float, sigma2: float, order: float) -> tuple[SampleCost, SampleCost]:
    """The costs by answer and joint, for all that a ledger's promise covers."""
    plain, joint = label_costs(sigma1, sigma2, 2, order)
    own = sigma1 / math.sqrt(2)
    bit = check_divergence(own, 1, order)
    label = plain.answered - plain.unanswered
    answered = label + yes_charge(own, 2, order, max(bit, plain.unanswered))
    by_answer = SampleCost(max(bit, plain.unanswered), max(bit, min(plain.answered, answered)))
    worst = max(bit, joint.answered)
    return by_answer, SampleCost(worst, worst)
