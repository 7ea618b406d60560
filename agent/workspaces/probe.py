"""The door from an image to a workspace: what can never work in it is found when it is opened.

`probe.sh` looks, as part of the first exchange with a new workspace. Docker finds the rest, such as
an image without a shell. Nobody checks again inside.
"""

from agent.errors import Unfit
from agent.workspaces.shell import FinishedCommand

_UNFIT = 45
_BAD_REQUEST = 400
_KILLED = 128
"""Exit codes above are those of processes that a signal ended."""

_NO_TOOLS = "it cannot run bash and sleep: install bash and coreutils, and leave them on PATH"
_NO_SERVER = {
    1: "its user cannot enter the folder {root}: put the repository there, and let the user enter",
    126: _NO_TOOLS,
    127: _NO_TOOLS,
}
"""Reasons why the command server did not start, by its exit code."""


def expect_start(image: str, status: int | None, text: str) -> None:
    """Check Docker's reason for not starting a container: an HTTP status and a text.

    Raises:
        Unfit: it is the image.
    """
    if status == _BAD_REQUEST or "unable to find user" in text:
        raise _unfit(image, f"none of its containers can start, as Docker says: {text}")


def expect_first_process(image: str, exit_code: int) -> None:
    """Check the exit code of the first process of a container, which should not end.

    Raises:
        Unfit: it ended by itself.
    """
    if exit_code < _KILLED:
        raise _unfit(image, _NO_TOOLS)


def expect_server(image: str, root: str, exit_code: int | None) -> None:
    """Check the exit code of a command server that did not answer.

    Raises:
        Unfit: it could not start in this image.
    """
    if exit_code in _NO_SERVER:
        raise _unfit(image, _NO_SERVER[exit_code].format(root=root))


def expect_fit(done: FinishedCommand, what: str) -> None:
    """Check the result of a script that began with `probe`.

    Raises:
        Unfit: nothing can be done in `what`, such as an image; the message says why in one line.
    """
    if done.exit_code == _UNFIT:
        raise Unfit.of(what, done.text)


def _unfit(image: str, reason: str) -> Unfit:
    return Unfit.of(f"image {image}", reason)
