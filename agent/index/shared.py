"""The indexes that all attempts of a process share.

Attempts at one task start from the same files, and most steps of an attempt change few of them or
none. So a repository is read and indexed once in a process, as long as it is among the last few
that were used.
"""

import asyncio
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

from agent.index.sources import Sources, read_sources
from agent.index.symbols import SymbolIndex
from agent.workspaces import Workspace

T = TypeVar("T")

_MOST = 3


@dataclass(frozen=True)
class Indexed:
    """One state of a repository with its symbols."""

    sources: Sources
    symbols: SymbolIndex

    @property
    def texts(self) -> Mapping[str, str]:
        """The files by their paths."""
        return self.sources.texts


_recent: list[Indexed] = []
"""The latest first. Replaced as a whole, so that readers need no lock."""

_one_at_a_time = threading.Lock()
_one_question = threading.Lock()


async def query(workspace: Workspace, question: Callable[[Indexed], T]) -> T:
    """Return what a function returns for the index of a work tree.

    It is called in a thread, because it may have many files parsed, and one call at a time.

    Raises:
        WorkspaceError: the files cannot be listed, or the shell is gone.
    """
    return await asyncio.to_thread(_answer, await read_index(workspace), question)


def _answer(indexed: Indexed, question: Callable[[Indexed], T]) -> T:
    with _one_question:
        return question(indexed)


async def read_index(workspace: Workspace) -> Indexed:
    """Return the index of a work tree.

    Raises:
        WorkspaceError: the files cannot be listed, or the shell is gone.
    """
    known = [indexed.sources for indexed in _recent]
    sources = await read_sources(workspace, known=known)
    return await asyncio.to_thread(_indexed, sources)


def _indexed(sources: Sources) -> Indexed:
    global _recent
    with _one_at_a_time:
        # Unchanged texts are the same objects, so this compares only references.
        same = next((each for each in _recent if each.texts == sources.texts), None)
        latest = (
            replace(same, sources=sources) if same else Indexed(sources, SymbolIndex(sources.texts))
        )
        _recent = [latest, *(each for each in _recent if each is not same)][:_MOST]
    return latest
