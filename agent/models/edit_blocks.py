"""A change in SEARCH/REPLACE blocks, by which a program without tools takes it from a reply."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from agent.models.patches import FilePatch, parse

_MARK = "SEARCH/REPLACE"
_GIVEN = 2
_DONE = "The repository is repaired."


def are_wanted(messages: Iterable[Mapping[str, Any]]) -> bool:
    """Return True if a conversation explains the blocks."""
    return any(_MARK in str(message.get("content")) for message in messages)


def reply(patch: str, messages: Iterable[Mapping[str, Any]]) -> str:
    """Return the change of a patch as blocks, or a last word if it was given twice.

    A program that knows none of the files yet only adds them to the conversation at first.
    """
    change = "\n\n".join(_blocks(patch))
    said = (message.get("content") for message in messages if message["role"] == "assistant")
    return change if sum(change in str(each) for each in said) < _GIVEN else _DONE


def _blocks(patch: str) -> Iterator[str]:
    """Yield one block for each hunk of a text file. A file that is removed becomes empty."""
    for file in parse(patch):
        if not file.is_binary:
            yield from (_block(file, hunk.old_lines, hunk.new_lines) for hunk in file.hunks)


def _block(file: FilePatch, old: tuple[str, ...], new: tuple[str, ...]) -> str:
    lines = ["<<<<<<< SEARCH", *old, "=======", *new, ">>>>>>> REPLACE"]
    return "\n".join([file.name, "```", *lines, "```"])
