"""The durable arm, the one that must be worth its extra cost.

arm.py             the repository and its test runner, then the flow of the preset

lean.py            the flow of the lean preset
solving.py         one conversation that reads, reproduces, edits and tests
gates.py           the gates, opened by tests on a fresh copy
adjudication.py    the cause of a gate that rejects again and again
scouting.py        another approach, found by reading
submission.py      the change without new tests and leftovers

full.py            the flow of the full preset
contract.py        1  the task's requirements according to its text
reproduction.py    2  the task as a failing test, verified by running it
planning.py        3  the rolling planner: one next step and a backlog
implementation.py  4  one step by one candidate, in a bounded tool loop
candidates.py      5  as many candidates as confidence requires, and the best of them
final.py           6  the cleaned patch, verified on a fresh copy

review.py          reviews based on test results
verification.py    test runs, compared with the base commit
indexing.py        the test files of the repository
outcome.py         the attempt's outcome, and the evidence for it
answers.py         typed answers of the roles
options.py         what an experiment may set
profile.py         presets, models by role, and settings
roles.py           tools by role
state.py           the attempt's knowledge, as facts
context.py         excerpts of code, found by the gatherer

The prompt of a part is the .md file beside it.
"""
