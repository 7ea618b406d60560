"""The durable arm, the one that must be worth its extra cost.

arm.py             the whole control flow
contract.py        1  the task's requirements according to its text
indexing.py        2  the repository map and the test files
reproduction.py    3  the task as a failing test, verified by running it
planning.py        4  the rolling planner: one next step and a backlog
implementation.py  5  one step by one candidate, in a bounded tool loop
candidates.py      6  as many candidates as confidence requires, and the best of them
review.py          7  reviews based on test results
handing_in.py      8  the cleaned patch, verified on a fresh copy
outcome.py         9  the attempt's outcome, and the evidence for it
answers.py         typed answers of the roles
profile.py         models by role, and settings of each phase
roles.py           tools by role
conversation.py    tool use until a role answers
protocols.py       native tool calls, or fenced blocks
state.py           the attempt's knowledge, as facts
context.py         excerpts of code, found by the gatherer
verification.py    test runs, compared with the base commit
debugging.py       detection of recurring errors

The prompt of a phase is the .md file beside it.
"""
