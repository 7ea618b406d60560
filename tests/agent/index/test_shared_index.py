"""Indexes that are shared by the attempts of a process."""

import asyncio
import threading
import time
from collections.abc import AsyncIterator

import pytest

from agent.index import sources
from agent.workspaces import HostWorkspace
from tests.agent.repositories import by_script

REPOSITORY = """
git init -q -b main .
printf 'def load():\\n    return 1\\n' >reader.py
printf 'import reader\\nreader.load()\\n' >main.py
git add -A
git -c user.name=Tester -c user.email=tester@example.org commit -qm base
git tag base
"""


@pytest.fixture
async def workspaces() -> AsyncIterator[list[HostWorkspace]]:
    """Yield two workspaces with the same files."""
    opened = [
        await HostWorkspace.open(prepare=by_script(REPOSITORY), base_commit="base")
        for _ in range(2)
    ]
    yield opened
    for workspace in opened:
        await workspace.close()


async def test_equal_files_are_indexed_once(workspaces: list[HostWorkspace]) -> None:
    """Two attempts at the same task share the symbols."""
    first, other = [await sources.read_index(workspace) for workspace in workspaces]
    assert first.symbols is other.symbols


async def test_an_edit_is_indexed_and_the_earlier_state_kept(
    workspaces: list[HostWorkspace],
) -> None:
    """An edit in one workspace does not affect the index of another."""
    changed, same = workspaces
    before = await sources.read_index(same)
    await changed.write("reader.py", b"\n\ndef load(path):\n    return path\n")
    (found,) = (await sources.read_index(changed)).symbols.definitions("load")
    assert (found.line, found.signature) == (3, "def load(path)")
    assert (await sources.read_index(same)).symbols is before.symbols


async def test_one_question_is_answered_at_a_time(workspaces: list[HostWorkspace]) -> None:
    """Attempts share symbols, whose answers change what they have found so far."""
    answering: list[int] = []

    def question(indexed: sources.Indexed) -> int:
        answering.append(threading.get_ident())
        time.sleep(0.05)  # long enough for the other to begin if nothing prevents it
        others = [each for each in answering if each != threading.get_ident()]
        answering.remove(threading.get_ident())
        return len(others) + len(indexed.symbols.definitions("missing"))

    asked = [sources.query(workspace, question) for workspace in workspaces]
    assert await asyncio.gather(*asked) == [0, 0]


async def test_only_the_last_few_are_kept(workspaces: list[HostWorkspace]) -> None:
    """Only the most recent states are cached, which bounds the memory."""
    workspace = workspaces[0]
    first = await sources.read_index(workspace)
    for number in range(5):
        await workspace.write("reader.py", f"load = {number}\n".encode())
        latest = await sources.read_index(workspace)
    assert (await sources.read_index(workspace)).symbols is latest.symbols
    assert (await sources.read_index(workspaces[1])).symbols is not first.symbols
