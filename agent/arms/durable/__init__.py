"""The durable arm: the one that must be worth its extra cost.

arm.py             the control flow of the whole
contract.py        1  what has to be done, as far as the text says it
indexing.py        2  the repository map and the test files
reproduction.py    3  the task as a failing test, checked by machine
planning.py        4  the rolling planner: one next step and a backlog
implementation.py  5  one step by one candidate, in a bounded tool loop
candidates.py      6  as many candidates as confidence asks for, and the best of them
review.py          7  judgements on what machines found
handing_in.py      8  the patch alone on a fresh copy, cleaned
outcome.py         9  what it came to, and the evidence

answers.py         what each role answers
profile.py         models by role, and how much of each phase
roles.py           which tools a role has
conversation.py    tools until a role answers
protocols.py       native tool calls, or fenced blocks
state.py           what is known, as facts
context.py         line references, read by machine
verification.py    tests run by machine, against the base commit
debugging.py       when the same error comes back

The prompt of a phase is the .md file beside it.
"""
