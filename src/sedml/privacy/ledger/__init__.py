"""A budget that cannot be overdrawn: a persistent privacy filter per cohort of teachers.

A *cohort* is a set of teachers that is promised (epsilon, delta) once, for all jobs of all requesters together.
A job goes through these states, each change one durable transaction:

    reserve -> reserved     its worst case, all samples answered, is charged; refused if the budget is short
    start   -> running      committed before the first bit is opened; only one caller ever gets it
    settle  -> settled      charged what was answered; at most what was reserved
    cancel  -> cancelled    charged nothing; only out of `reserved`, which proves that nothing was opened

A process that dies leaves its job in the last committed state. A running job stays charged at its worst case
until somebody settles it, so it is charged exactly once, and never zero times once a label may be out.

**What is proven.** The budget fixes, when it is set, a limit rho on zCDP and a limit eta on the distance of
the samplers' noise from its exact law, with

    zcdp_epsilon(rho, delta - delta_s) <= epsilon    and    delta_s = (1 + e^epsilon) eta.

- Every threshold check and every noisy maximum of every job is one mechanism of one long adaptive sequence:
  which comes next, and its rho, depend only on answers given before. Whitehouse, Ramdas, Rogers & Wu,
  "Fully-Adaptive Composition in Differential Privacy", ICML 2023, Theorem 1 (here with no delta of its own;
  then also Feldman & Zrnic, "Individual Privacy Accounting via a Rényi Filter", NeurIPS 2021, at every order):
  if the sequence stops before the sum of the rho passes a limit that was fixed at the start, all of it
  together is zCDP with that limit. The rho may depend on the answers, and so may the time of stopping.
- Hence settling to the number of answers observed is covered. A check is paid for when it is made, a maximum
  only if the check passed, so what a job has spent is a function of its answers; until the job ends its
  reservation bounds it. At all times: spent <= settled + reserved <= limit. What settling gives back was
  never spent, and the next job is one more mechanism chosen by the answers so far.
- Jobs may run side by side: filters of Rényi divergence hold under concurrent composition too (Haney,
  Shoemate, Tian, Vadhan, Vyrros, Xu & Zhang, "Concurrent Composition for Interactive Differential Privacy with
  Adaptive Privacy-Loss Parameters", CCS 2023).
- A job passes in its sampler's distance (draws times the distance of one draw), not a delta: coupling every
  draw, the real answers differ from those of exact noise with a probability of at most eta in all, for the
  filter stops before the sum passes eta. As in `sedml.privacy.conversion.sampler_delta`, that costs
  (1 + e^epsilon) eta of delta, with the *cohort's* epsilon; one computed from a job's own would be too small.
- rho and eta have a limit each, fixed beforehand. Letting one grow where the other is not used up is not
  covered by these theorems.

The guarantee is the budget. `Status` shows what has been used so far; it depends on answers, and is not a
guarantee of its own. All charges of a cohort must be of one view (see `sedml.privacy.accounting`), the worst
one that shall be covered.

**The same sample again** is answered with the label that was given before: `known` and `remember`. Otherwise
repeated queries average the noise away (Wang, Schuster & Papernot, "In Differential Privacy, There is Truth",
NeurIPS 2022). Fingerprints find exact repeats only. A sample that was changed a little is a new one, and
against averaging over those stands the budget alone.

What no ledger can notice: an old copy of its file put back, or a second ledger for the same teachers.
"""

from sedml.errors import explain_missing

with explain_missing():
    from sedml.privacy.ledger.amounts import Amounts, Budget, Status
    from sedml.privacy.ledger.answers import Known, Label, fingerprint
    from sedml.privacy.ledger.books import Reservation
    from sedml.privacy.ledger.schema import State
    from sedml.privacy.ledger.store import Ledger

__all__ = [
    "Amounts",
    "Budget",
    "Known",
    "Label",
    "Ledger",
    "Reservation",
    "State",
    "Status",
    "fingerprint",
]
