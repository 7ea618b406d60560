"""The append-only journal of steps, with its leases, ledger and budgets.

journal     the one class that is used from outside
types       what goes in and comes out
attempts    rows of attempts
leases      one writer per attempt, fenced by its epoch
records     rows of steps
ledger      reservations, settlements and limits
bodies      requests and results as they lie in the database
ties        which lakes a journal belongs to
progress    how far the attempts of an experiment are
retention   what is kept of attempts, and how it becomes less
tables      the schema as queries see it
migrations  the schema as databases get it
database    transactions that survive the database's absence
"""

from agent.journal.journal import Journal
from agent.journal.types import (
    Account,
    Attempt,
    Claim,
    Holding,
    Lease,
    Limit,
    Progress,
    RecordedStep,
    References,
    Reservation,
)

__all__ = [
    "Account",
    "Attempt",
    "Claim",
    "Holding",
    "Journal",
    "Lease",
    "Limit",
    "Progress",
    "RecordedStep",
    "References",
    "Reservation",
]
