"""The protocol of forges, and the values of their answers."""

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal, Protocol

LABEL = "durabench"
"""The label that starts a job. A mention is the same word behind an `@`."""

SIGN = "<!-- durabench -->"
"""The mark of a comment that a job makes itself."""

_MENTION = re.compile(rf"(?<![\w@/.-])@{LABEL}(?![\w-])[,:]?\s*", re.IGNORECASE)
_QUOTED = re.compile(r"^\s*>.*$", re.MULTILINE)

Rights = Literal["write", "read", "archived"]
PullState = Literal["open", "merged", "closed"]


@dataclass(frozen=True)
class TextLimits:
    """The longest texts that a forge takes, in characters."""

    title: int
    body: int
    draft: str = ""
    """The start of a title that makes its pull request a draft; '' where a field says so."""


@dataclass(frozen=True)
class Issue:
    """An issue."""

    title: str
    text: str


@dataclass(frozen=True)
class PullRequest:
    """A pull request or merge request."""

    state: PullState
    branch: str
    commit: str
    """The head of its branch."""
    is_fork: bool
    """True if the branch is in another repository."""
    title: str
    text: str
    base: str
    """The branch to merge into, which its people may change."""


@dataclass(frozen=True)
class FailedCheck:
    """A check of CI that failed. Its texts come from code under test, and prove nothing."""

    name: str
    log: str
    """The log, or else the summary; '' if the forge gives neither."""


@dataclass(frozen=True)
class CommitChecks:
    """The state of CI for a commit."""

    is_pending: bool
    failed: tuple[FailedCheck, ...]


@dataclass(frozen=True)
class Event:
    """An act of a person that may start or continue a job; or a change of CI, with its commit."""

    at: datetime
    number: int = 0
    is_pull: bool = False
    user: str = ""
    text: str = ""
    """The text without the mention; '' for a label."""
    commit: str = ""


class Forge(Protocol):
    """A repository on its forge.

    Each method raises DatasetError or UsageError if the forge refuses it, and InfrastructureError
    if it does not answer.
    """

    @property
    def limits(self) -> TextLimits: ...

    def read_rights(self, user: str = "") -> Rights:
        """Return the rights of a user, by default of the token."""

    def read_issue(self, number: int) -> Issue:
        """Return an issue."""

    def read_pull(self, number: int) -> PullRequest:
        """Return a pull request."""

    def read_comments(self, number: int, since: datetime) -> list[str]:
        """Return what the repository's own people say about a pull request, in order."""

    def publish(
        self, branch: str, base: str, title: str, body: str, *, is_trial: bool = False
    ) -> str:
        """Return the address of the pull request of a branch, with this text.

        Without one, a draft is opened. A trial only asks whether that is allowed, '' if it is. Its
        branch does not exist, so that nothing can be opened.
        """

    def comment(self, number: int, text: str, *, is_pull: bool) -> None:
        """Comment on an issue or a pull request."""

    def read_checks(self, commit: str) -> CommitChecks:
        """Return what CI says about a commit."""

    def read_events(self, since: datetime) -> list[Event]:
        """Return labels and mentions since a time."""


def find_mention(text: str | None) -> str | None:
    """Return a text without its mention of jobs; None if it has none outside quotes.

    A comment of a job, which may repeat the mention, has none.
    """
    own = _QUOTED.sub("", text or "")
    is_mention = _MENTION.search(own) and SIGN not in own
    return _MENTION.sub("", own).strip() if is_mention else None


def read_time(text: str | None) -> datetime:
    """Return a time in any of the forms of forges; now if there is none."""
    at = datetime.fromisoformat(text.replace(" UTC", "Z")) if text else datetime.now(UTC)
    return at if at.tzinfo else at.replace(tzinfo=UTC)


def quote_comment(text: str, path: str | None, line: int | None) -> str:
    """Return a comment behind the place that it is about."""
    place = f"{path}{f':{line}' if line else ''}: " if path else ""
    return f"{place}{text.strip()}"
