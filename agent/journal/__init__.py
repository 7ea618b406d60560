"""The append-only journal of steps, with its leases, ledger and budgets.

journal     the only class that is used from outside
types       input and output types
attempts    rows of attempts, and the lakes that they belong to
leases      one writer per attempt, fenced by its epoch
records     rows of steps
ledger      reservations, settlements and limits
blobs       storage format of requests and results
inbox       messages from people to a running attempt
queues      queues of work, taken in the name of a lease
watching    progress of attempts, for viewers that follow them
retention   sizes of attempts, and pruning
holding     holds a lease while there is work on its attempt
migrations  the schema as created in databases
database    statements and transactions, retried while the database is unreachable
"""

from agent.journal.inbox import InboxMessage, MessageKind, Wait, Wanted
from agent.journal.journal import Journal
from agent.journal.queues import Ended, Queue, Taken
from agent.journal.types import (
    UNKNOWN_INPUTS,
    Account,
    AdoptedStep,
    Attempt,
    Claim,
    EndedStep,
    FreeStep,
    Holding,
    Inputs,
    Lease,
    Limit,
    NewStep,
    Progress,
    RecordedStep,
    Reservation,
    StepKind,
    Tenure,
    TreeRef,
)
