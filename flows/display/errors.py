"""Errors that the command line prints as one line, with their exit codes.

UsageError             an invalid file, option or request: exit code 2
└── Mismatch           a lake, a journal and the program using them do not belong together
IncompleteRun          some cells are unfinished: exit code 3, run again to continue
GateFailed             a finished run does not keep a declared bound, or a model gave no answer:
                       exit code 1
"""


class UsageError(Exception):
    """The operator has to change something, for one or several reasons. Nothing was written."""

    def __str__(self) -> str:
        return "; ".join(map(str, self.args))


class Mismatch(UsageError):
    """A lake and a journal do not belong together, or not to the run that scheduled the work."""


class IncompleteRun(Exception):
    """Some cells could not be finished. Finished work is kept."""


class GateFailed(Exception):
    """A finished run does not keep a declared bound, or the model of an arm answered no call."""
