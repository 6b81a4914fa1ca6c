"""The clients of a deployment: what teachers, requesters and operators do with the two servers over HTTPS.

In the order they depend on each other: `arguments` is what callers pass; `secure` is TLS, `failures` is what an error
of a call means, `connection` HTTPS to one server, `pair` both at once; `views` is a job as both see it, `samples` its
file of samples, `fetching` brings it; `async_client` what every client can ask; `predicting` and `teacher` make and
send votes, `spending` keeps account of them, `watching` waits for jobs; `request`, `prospects` and `drafts` make jobs,
`publishing` brings them to the servers, `revealing` opens their labels, `job_result` is what comes of that, `requester`
does all of it; `log_reading` checks the servers' logs, `receipts` keeps what a vote was acknowledged with,
`log_summary` says what both logs say together, `witnessing` cosigns them from a third place, `evidence_document`
answers an auditor's questions and `evidence_page` is the page of it; `administration` is for operators and for new
tokens; `blocking` is the same without await; `budgets` reads the servers' ledgers, `checkup` finds out what is wrong.
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
