"""A stand-in for a model that needs no key. It has the answer, and its skill is declared.

model.py         the model: choice of script, malformed replies, costs; mini-swe-agent's script
roles.py         the durable arm's roles that ask, find, plan, describe and judge
anchor.py        the role that writes a failing test, in Python, Go or JavaScript
solver.py        the role that reads, tests, edits and repairs in one conversation
loop.py          agents on the loop, and the stages of the staged arm
implementer.py   the role that changes code: correctly, wrongly, or by cheating
reference.py     seeded draws, the reference patch by file, right and wrong changes
conversation.py  parser of the model's input, and its replies
"""

from agent.models.simulated.model import SimulatedModel
