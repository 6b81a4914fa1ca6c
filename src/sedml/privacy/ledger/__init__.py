"""A budget that cannot be overdrawn: a persistent privacy filter per cohort of teachers.

A *cohort* is a set of teachers that is promised (epsilon, delta) once, for all jobs of all requesters together.
A job goes through these states, each change one durable transaction:

    reserve -> reserved     charged; refused if the budget is short
    start   -> started      spent for good, committed before the first bit is opened; only one caller ever gets it
    cancel  -> cancelled    charged nothing; only out of `reserved`, which proves that nothing was opened

A process that dies leaves its job in the last committed state: it is charged exactly once, and never zero times once
a label may be out. Nothing that is charged depends on votes or answers, so books tell nobody anything about them.

**What is proven.** The budget fixes, when it is set, one Rényi order α, a limit on what is charged at it, and a limit
eta on the distance of the samplers' noise from its exact law. Charges and the limit are counted as rho = D_α/α, with

    order_epsilon(α, α rho, delta - delta_s) <= epsilon    and    delta_s = (1 + e^epsilon) eta,

by Canonne, Kamath & Steinke, "The Discrete Gaussian for Differential Privacy", NeurIPS 2020, Prop. 12. The order is
the one at which the budget leaves most room; it is a function of (epsilon, delta) and is on record with the cohort.

- Every sample of every job is one mechanism of one long adaptive sequence: which comes next depends only on what was
  released before. Each is charged D_α of its outcome for all neighbours, and the sum of the charges never passes a
  limit fixed at the start; then D_α of all of it is within that limit. This is the filter of Feldman & Zrnic,
  "Individual Privacy Accounting via a Rényi Filter", NeurIPS 2021; docs/explanation/privacy.md has the proof.
- One order, fixed beforehand. To take whichever of several orders has room left would need a union: a part of delta for
  each. rho of zCDP is at least D_α/α at every α: whoever charges that may do so.
- Jobs may run side by side: filters of Rényi divergence hold under concurrent composition too (Haney,
  Shoemate, Tian, Vadhan, Vyrros, Xu & Zhang, "Concurrent Composition for Interactive Differential Privacy with
  Adaptive Privacy-Loss Parameters", CCS 2023).
- A job passes in its sampler's distance (draws of one server times the distance of one draw), not a delta: coupling
  every draw, the real answers differ from those of exact noise with a probability of at most eta in all, for the
  filter stops before the sum passes eta. As in `sedml.privacy.conversion.sampler_delta`, that costs
  (1 + e^epsilon) eta of delta, with the *cohort's* epsilon; one computed from a job's own would be too small.
- rho and eta have a limit each, fixed beforehand. Letting one grow where the other is not used up is not
  covered by these theorems.

The promise holds for the requester and one operator together, whatever these do, as long as the other operator runs the
published code: that is what `sedml.privacy.charging` charges.

**Cohorts have members.** A teacher belongs to the cohort of the first job that counted it, for good, unless that job
was cancelled. The ledger keeps whom a job counts, in the transaction that reserves it, and refuses one who belongs to
another cohort. What the jobs that counted a teacher cost is that teacher's account, and a teacher may set a limit to
it: at the same order, a filter of its own.

**The same sample again** is answered with the label that was given before: `known` and `remember`. Otherwise
repeated queries average the noise away (Wang, Schuster & Papernot, "In Differential Privacy, There is Truth",
NeurIPS 2022). Fingerprints find exact repeats only. A sample that was changed a little is a new one, and
against averaging over those stands the budget alone.

What no ledger can notice: an old copy of its file put back, a second ledger for the same teachers, or a teacher that
takes part under two names.
"""

from sedml.extras import explain_missing

with explain_missing():
    from sedml.privacy.ledger.amounts import Amounts, Budget, Status
    from sedml.privacy.ledger.answers import fingerprint
    from sedml.privacy.ledger.books import Reservation
    from sedml.privacy.ledger.members import TeacherAccount
    from sedml.privacy.ledger.schema import State
    from sedml.privacy.ledger.store import Ledger

__all__ = [
    "Amounts",
    "Budget",
    "Ledger",
    "Reservation",
    "State",
    "Status",
    "TeacherAccount",
    "fingerprint",
]
