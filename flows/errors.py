"""What the command line shows in one line, and with which exit code.

UsageError             something the operator wrote or asked for cannot be: exit code 2
└── Mismatch           a lake, a journal and who works with them do not belong together
IncompleteRun          cells ended as infrastructure: exit code 3, run again to continue
"""


class UsageError(Exception):
    """The operator has to change something; nothing was written."""


class Mismatch(UsageError):
    """A lake and a journal do not belong together, or not to the run that ordered the work."""


class IncompleteRun(Exception):
    """Some cells could not be carried out; what was finished is kept."""


REFUSAL = "preflight failed"
"""How the detail of an attempt begins whose image failed the preflight."""
