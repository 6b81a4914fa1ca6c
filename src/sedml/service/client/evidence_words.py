"""What an evidence document says in words, to be filled in: a line for each question, with its answer after the bar."""

from __future__ import annotations

PARTIES = """
Purpose, as the requester put it | {title}
Who asked | the account {requester}
Who voted | {took_part}
Who counted | the servers S0 and S1
Who made this page | {maker}, from its own kit and the servers' logs
State | {state}
"""
TERMS = """
Question | which of {classes} classes{named} each of {samples:,} public samples belongs to
Votes | {votes} from each organisation on each sample
A label is given if | the noisy count of the winning class reaches the threshold of {threshold} {of}
Noise | is added to every count, with a standard deviation of {sigma:g}; each server adds half of the variance
Minimum number of voters | {voters}; with fewer, nothing is computed
Voting ends by | {deadline}
Public data | {data_bytes:,} bytes with the SHA-256 hash {data_sha256}
Id | {id}, a hash of all these terms, so that other terms have another id
"""
MEANING = """
Who is protected | each {protected}
Epsilon | {epsilon:.4g} at delta {delta:g}, computed here from the terms, which promise {promised:g} at most
In plain words | {odds}
If neither operator works with the requester | epsilon {apart:.4g} at the same delta
"""
AGAINST = """
Holds against | the requester together with one operator, whatever that one's server does, and any other organisations
A server alone learns | who voted and when, but no vote, no count and no label
Encryption protects against | anybody on the network, and a thief of one server's disk who does not have its kit
Does not hold against | both operators together: their shares add up to every vote
Not covered | what the labels say about the world at large, and the public samples, which all parties see
An organisation as a whole | {whole}
"""
LEFT = """
From this organisation | {ballot}
What that is | the votes in two halves, each of which alone is random numbers, and a proof that they are not too many
Sent along with it | its name and token, to both servers, which see when and from which address it called
From models of parts | also a hash that stands for those parts in this job
Never sent | training data, models, scores, or votes that can be read
"""
ASSUMPTIONS = """
The two operators | are not the same and do not work together, and one of them runs the published code
Cryptography | gap CDH on Ed25519's group, AES-128, AES-256-GCM, SHA-256, BLAKE2b, TLS 1.3, Ed25519 signatures
Keys | the key of the deployment's authority is kept offline, and the servers' keys are not kept with their backups
Randomness | the operating systems' random numbers are good, and nobody can measure how long it takes to draw noise
Each organisation | where less than an organisation is protected, keeps its data in parts as disjoint as the terms say
"""
# After Near and Darais, "Guidelines for Evaluating Differential Privacy Guarantees", NIST SP 800-226, March 2025. The
# headings are those of its pyramid and sections, and what each asks for follows the privacy hazards listed there, read
# in the initial public draft (December 2023) and held against public summaries of the final text. It quotes nothing.
NIST_TITLE = "The differential privacy pyramid of NIST SP 800-226"
NIST = """
Privacy parameters | epsilon {epsilon:.4g} at delta {delta:g} for this job, from Rényi divergences of order \
{order:.4g}; a budget bounds all jobs of a cohort together
Unit of privacy | {unit}: data sets are neighbours if they differ in one {unit}, that is in up to {moved} on \
every sample; how many organisations vote is not hidden
Mixing with other data releases | whatever else is published from the same data is not covered, and adds to this
Algorithms and correctness | the class with the highest noisy count, if that reaches the threshold; the noise is a \
whole number from a table, whose distance from the exact law is part of delta. This is SEDML's own code, with proofs \
and tests; NIST advises well-tested libraries, so ask who has reviewed it
Utility | samples without a clear majority get no label, and a label may be wrong; how often is not measured here
Bias | samples on which the organisations disagree get no label, and those may be rare cases; not measured here
Query models | a job's question and samples are fixed before anybody votes; each job is charged, and once the budget \
is used up, both servers refuse
Trust models | secure computation instead of a trusted curator: two servers work on secret shares, and one of \
the two operators has to be honest
Side channels | counts and noise are whole numbers, and the sizes of messages do not depend on votes; how long it \
takes to draw noise does depend on the noise
Data security and access control | shares are encrypted on the way and on the servers' disks; the operators decide \
whose tokens are accepted
Data collection exposure | training data and models stay with each organisation; ballots are deleted as stated under \
"Retention and deletion"
"""
IMPACT = """
Processing | predictions of models on {samples:,} public samples are combined into labels for {requester}
What leaves an organisation | secret shares of its predictions; no record of a person is sent
Recipients | S0 and S1 get shares, {requester} gets the labels
Necessity and proportionality | for the controller to judge; noise and a minimum of {voters} \
are part of the terms
Measures | secret sharing, noise, a budget that both servers enforce, deletion, and logs that others check
Risks that remain | see "Does not hold against", "Not covered" and "Assumptions"
What is shown | the bound under "Epsilon", by proofs and tests; not that nobody can be identified in other ways
Outcome according to the logs | {outcome}
"""
NOTES = {
    "Software": "What each server says it runs. Equal hashes rule out a mistake, but not a lie.",
    "Retention and deletion": "What each server says it does with what it holds; nobody else can see that.",
    "Assumptions": 'The page "Who learns what" of SEDML\'s documentation says where each is needed, '
    "and what follows if it does not hold.",
    NIST_TITLE: "A guarantee is worth no more than what it rests on. The headings follow NIST's guidelines of "
    "March 2025, from the top of the pyramid down; the answers are in our words, and NIST has not seen them.",
    "For a data protection impact assessment": "Facts to start from, not an assessment: whether the labels are "
    "personal data is for the controller to decide.",
}
DURATIONS = {"d": "days", "h": "hours", "m": "minutes", "s": "seconds", "ms": "milliseconds"}
