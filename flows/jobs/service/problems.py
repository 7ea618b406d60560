"""Problems of a request, each answered with a status and one line."""


class Problem(Exception):
    """A request that cannot be answered. The message is one line."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(" ".join(message.split()))
        self.status = status


def not_found(what: str) -> Problem:
    """Return the answer to a request for what does not exist."""
    return Problem(404, f"there is no {what}")
