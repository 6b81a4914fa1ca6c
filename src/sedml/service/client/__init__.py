"""The clients of a deployment: what teachers, requesters and operators do with the two servers over HTTPS.

In the order they depend on each other:

- for all: `arguments` (what callers pass), `secure` (TLS), `failures` (what an error of a call means), `connection`
  (HTTPS to one server), `pair` (both at once), `views` (a job as both see it), `samples` and `sample_tables` (its file
  of samples), `fetching` (which brings it), `async_client` (what every client can ask);
- for logs: `log_entries` and `log_reading` (read and checked), `log_differences` and `log_summary` (what both say
  together), `witnessing` (cosigned from a third place);
- for teachers: `model_files` and `predicting` (from a model to votes), `voters` (what a teacher votes with), `spending`
  (its own account), `receipts` (what it was acknowledged with), `watching` (for jobs), `teacher`;
- for requesters: `request` and `prospects` (what is asked for, and what it can be worth), `drafts` and `publishing` (on
  its way to both servers), `revealing` and `job_result` (the labels), `requester`;
- for operators, and for new tokens: `administration`;
- for everybody: `blocking` (all of it without await), `budgets` (what the servers' ledgers say), `checkup` and
  `checkup_log` (what is wrong), `evidence_words`, `evidence_document` and `evidence_page` (what an auditor asks).
"""

from sedml.service.client.blocking import Operator, Requester, Teacher
from sedml.service.client.job_result import JobResult, JobSeconds
from sedml.service.client.requester import AsyncRequester
from sedml.service.client.teacher import AsyncTeacher
from sedml.service.client.views import JobView, VoteReceipt
from sedml.service.client.watching import WatchEvent

__all__ = [
    "AsyncRequester",
    "AsyncTeacher",
    "JobResult",
    "JobSeconds",
    "JobView",
    "Operator",
    "Requester",
    "Teacher",
    "VoteReceipt",
    "WatchEvent",
]
