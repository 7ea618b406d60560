"""What the command line shows in one line, and with which exit code.

UsageError             something the operator wrote or asked for cannot be: exit code 2
IncompleteRun          cells ended as infrastructure: exit code 3, run again to continue
"""


class UsageError(Exception):
    """The operator has to change something; nothing was written."""


class IncompleteRun(Exception):
    """Some cells could not be carried out; what was finished is kept."""
