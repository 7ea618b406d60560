"""A stand-in for a model that needs no key: it knows the answer, and its skill is stated.

model.py         which script answers, how often a reply is malformed, what it costs
mini.py          the script for mini-swe-agent
roles.py         the durable arm's roles that ask, find, plan and describe
anchor.py        the one that writes a failing test
implementer.py   the one that changes code: rightly, wrongly, or by cheating
reviewers.py     the two that judge a change
reference.py     the reference patch by files, and whether a change is that
conversation.py  what the model is told, and how it says what it does
luck.py          seeded draws
"""

from agent.models.simulated.model import SimulatedModel

__all__ = ["SimulatedModel"]
