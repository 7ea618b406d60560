"""Programs and subagents whose process dies after any row of the journal."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from agent.ptc.tool import program_uses
from agent.types import Outcome
from tests.agent.arms.durable.conftest import Said
from tests.agent.arms.loop.conftest import DONE, Attempts, Died, bought, check_trees

MIXED = """
import asyncio

async def lost():
    try:
        await read(path="no.py")
    except ValueError:
        return await run_command("echo caught > caught.txt; echo caught")

results = await asyncio.gather(
    write(path="one.txt", content="1"),
    spawn(agent="worker", task="change it"),
    read(path="calc.py"),
    write(path="two.txt", content="2"),
    spawn(agent="scout", task="look"),
    lost(),
)
await merge(ref=results[1]["ref"])
[results[1]["changed"], results[4]["summary"], results[5]["output"]]
"""

FAILING = """
import asyncio
await write(path="kept.txt", content="kept")
await asyncio.gather(
    spawn(agent="worker", task="change it"),
    run_command("sleep 0.2; echo late > late.txt"),
    read(path="no.py"),
)
"""

FIVE = """
import asyncio
await asyncio.gather(
    write(path="one.txt", content="1"),
    read(path="calc.py"),
    read(path="tests"),
    write(path="two.txt", content="2"),
    read(path="calc.py"),
)
"""

SPAWNS: Said = [
    ("spawn", {"agent": "worker", "task": "change it"}),
    ("write", {"path": "own.txt", "content": "own"}),
    ("spawn", {"agent": "scout", "task": "look"}),
    ("run_ptc", {"code": "await write(path='more.txt', content='more')"}),
    ("read", {"path": "own.txt"}),
]

SCRIPTS: dict[str, Said] = {
    "mixed": [("run_ptc", {"code": MIXED})],
    "failing": [("run_ptc", {"code": FAILING})],
    "five": [("run_ptc", {"code": FIVE})],
    "spawns": SPAWNS,
}

KINDS = {
    "scout": {"capabilities": ["look"]},
    "worker": {"capabilities": ["files"], "writes": True},
}

ROWS = {"mixed": 33, "failing": 14, "five": 15, "spawns": 27}
"""Rows that a run has at least. Their number depends on which calls end at the same time."""


async def solve(attempts: Attempts, name: str, dies_after: int | None = None) -> Outcome:
    change: Said = [("write", {"path": "made.txt", "content": "made"})]
    scripts: dict[str, Any] = {
        "loop": [SCRIPTS[name], [("read", {"path": "calc.py"})], DONE],
        "scout": [[("read", {"path": "calc.py"})], DONE],
        "worker": [change, DONE],
    }
    return await attempts.run(
        scripts,
        ["files", "shell", "subagents", "ptc"],
        dies_after=dies_after,
        subagents={"kinds": KINDS},
    )


@pytest.fixture(scope="module")
def undisturbed(
    tmp_path_factory: pytest.TempPathFactory,
) -> Callable[[str], tuple[Attempts, Outcome]]:
    """Return a function that returns an attempt that nothing disturbed, and its outcome."""

    @cache
    def solved(name: str) -> tuple[Attempts, Outcome]:
        whole = Attempts(tmp_path_factory.mktemp("whole"))
        with ThreadPoolExecutor(1) as thread:  # a test has its own event loop
            return whole, thread.submit(asyncio.run, solve(whole, name)).result()

    return solved


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "rows"), [(name, rows) for name, most in ROWS.items() for rows in range(most)]
)
async def test_a_resume_has_the_results_of_an_undisturbed_run(
    tmp_path: Path,
    undisturbed: Callable[[str], tuple[Attempts, Outcome]],
    name: str,
    rows: int,
) -> None:
    """After a death at any row, calls, results and patch are those of a run without one."""
    whole, wanted = undisturbed(name)
    killed = Attempts(tmp_path)
    with pytest.raises(Died):
        await solve(killed, name, rows)
    before = bought(killed.recorded)
    found = await solve(killed, name)
    assert killed.session is not None
    new = {(step.scope, step.seq) for step in killed.session.steps if not step.replayed}
    assert not before & new
    assert len(killed.model.asked) == len(bought(killed.recorded)) - len(before)
    assert (found.status, found.patch) == (wanted.status, wanted.patch)
    check_trees(killed.recorded)
    if name != "failing":  # how far the cancelled calls were is a matter of time
        assert steps_of(killed) == steps_of(whole)
        assert uses(killed) == uses(whole)


def steps_of(attempts: Attempts) -> list[str]:
    """Return scopes and kinds of all steps of a run but events. Results of calls that end at the
    same time share an event."""
    assert attempts.session is not None
    return sorted(f"{s.scope} {s.kind}" for s in attempts.session.steps if s.kind != "event")


def uses(attempts: Attempts) -> list[Any]:
    """Return the results of all tools of a run, by their places."""
    assert attempts.session is not None
    made = [s for s in attempts.session.steps if s.kind == "action"]
    return [s.result for s in sorted(made, key=lambda step: (step.scope, step.seq))]


async def test_each_call_in_a_gather_has_its_own_changes(tmp_path: Path) -> None:
    """Tools that write and tools that read in one gather take turns in the workspace."""
    attempts = Attempts(tmp_path)
    await solve(attempts, "five")
    made = program_uses(attempts.session.steps if attempts.session else [], "work")
    changed = {str(use.arguments.get("path")): use.result.changed for use in made}
    assert [use.name for use in made] == ["write", "read", "read", "write", "read"]
    assert changed == {"one.txt": ["one.txt"], "calc.py": [], "tests": [], "two.txt": ["two.txt"]}
