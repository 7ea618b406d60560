"""The statement of a change: what its author wrote, without what only its patch says.

These are removed: lines that the patch has too, quoted changes, trailers, and the names of files
and identifiers that the patch adds, if no test uses them. A name that tests use stays, because
the task cannot be solved without it.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from eval import git, patches
from eval.errors import DatasetError
from eval.repositories import RepositorySource
from flows.display.terminal import say_once
from flows.jobs import forge
from flows.jobs.request import access_to

_TRAILER = re.compile(r"^[A-Z][A-Za-z]*-[A-Za-z-]+: .+$|^\(cherry picked from commit .*\)$")
_MERGE = re.compile(r"^Merge (?:pull request #\d+ from|branch|remote-tracking branch) .*$")
_NUMBER = re.compile(r"^Merge pull request #(\d+) |\(#(\d+)\)\s*$")
_OF_A_DIFF = re.compile(r"^(?:diff --git |index [0-9a-f]+\.\.|@@ |\+\+\+ |--- |[+-](?![ -]))")
_FENCE = re.compile(r"^\s*(?:```|~~~)\s*(?:diff|patch)\b")
_END_OF_FENCE = re.compile(r"^\s*(?:```|~~~)\s*$")
_NAME = re.compile(r"[A-Za-z_][\w-]*(?:[./][\w-]+)*")
_WORD = re.compile(r"[A-Za-z_]\w+")
_LOOKS_LIKE_CODE = re.compile(r"_|[a-z][A-Z]|\d|[./]")
_REMOVED = "…"
_SHORTEST_LINE = 12
"""Characters of a line of the patch that is removed. Shorter ones can be words of a sentence."""
_ENOUGH_WORDS = 10


@dataclass(frozen=True)
class Statement:
    """The text that an arm gets."""

    text: str
    warning: str
    """Why it may not be enough, in one line; '' if it may."""


def read_text(message: str, source: RepositorySource | None) -> str:
    """Return title and text of the pull request that a message names, or else the message.

    The forge is only asked with a token. `source` is the repository there, if it has one.

    Raises:
        InfrastructureError: the forge does not answer.
        UsageError: it refuses the token.
    """
    number = _NUMBER.search(message.strip().partition("\n")[0])
    if number is None or source is None or not access_to(source).token:
        return message
    try:
        title, text = forge.read_issue(replace(source, issue=int(number[1] or number[2])))
    except DatasetError as error:
        say_once(f"the message of the commit is the statement: {error}")
        return message
    return f"{title}\n\n{text}"


def write_statement(text: str, patch: str, test_patch: str, mirror: Path, base: str) -> Statement:
    """Return the statement of a change from the text of its author.

    `mirror` has the commit `base`: names that its files have stay in the text.
    """
    changes = patches.read_or_nothing(patch)
    lines = {line.strip() for change in changes for line in (*change.added, *change.removed)}
    secret = {line for line in lines if len(line) >= _SHORTEST_LINE}
    left = "\n".join(_without_quotes(text.splitlines(), secret))
    names = _names_of_patch(left, changes, test_patch, mirror, base)
    left = _NAME.sub(lambda match: _REMOVED if match[0] in names else match[0], left)
    left = re.sub(r"\n{3,}", "\n\n", left).strip()
    words = len([word for word in re.findall(r"\w+", left) if not word.isdigit()])
    warning = "" if words >= _ENOUGH_WORDS else f"the statement has {words} words"
    return Statement(left or "(no description)", warning)


def _without_quotes(lines: Iterable[str], secret: set[str]) -> list[str]:
    """Return the lines without merges, trailers, and parts of the patch."""
    left: list[str] = []
    is_diff = False
    for line in lines:
        plain = line.strip()
        if is_diff or _FENCE.match(line):
            is_diff = not (is_diff and _END_OF_FENCE.match(line))
            continue
        if _TRAILER.match(plain) or _MERGE.match(plain) or _OF_A_DIFF.match(line):
            continue
        if plain in secret or plain.lstrip("+-> `").rstrip("`") in secret:
            continue
        left.append(line if any(left) else re.sub(r"\s*\(#\d+\)\s*$", "", line))
    return left


def _names_of_patch(
    text: str,
    changes: list[patches.FileInPatch],
    test_patch: str,
    mirror: Path,
    base: str,
) -> set[str]:
    """Return the names in a text that the patch adds and no test uses."""
    added = {word for change in changes for line in change.added for word in _WORD.findall(line)}
    files = {change.path for change in changes if change.action in ("added", "renamed")}
    files |= {PurePosixPath(path).name for path in files}
    used = set(_WORD.findall(test_patch))
    names = set()
    for name in set(_NAME.findall(text)):
        if name in files:
            if PurePosixPath(name).stem not in used:
                names.add(name)
        elif _LOOKS_LIKE_CODE.search(name):
            parts = [word for word in _WORD.findall(name) if word in added and word not in used]
            if any(not _is_in_files(mirror, base, word) for word in parts):
                names.add(name)
    return names


def _is_in_files(mirror: Path, commit: str, word: str) -> bool:
    found = git.git(
        mirror, "grep", "--max-count=1", "-l", "-w", "-F", "-e", word, commit, "--", check=False
    )
    return bool(found)
