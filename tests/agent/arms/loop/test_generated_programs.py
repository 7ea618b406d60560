"""Generated programs that die after any row of the journal: they end as if they had not."""

import asyncio
import itertools
import json
import random
import tempfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agent.journal import RecordedStep
from agent.models.protocol import ModelReply, ModelRequest
from agent.types import Outcome
from tests.agent.arms.durable.conftest import RoleModel, Said
from tests.agent.arms.loop.conftest import DONE, Attempts, Died, bought, check_trees, results

Node = tuple[Any, ...]
"""A statement: a name of `CALLS`, `loop` with a count and a block, or `gather` with blocks."""
Block = list[Node]

CALLS = {
    "write": "await write(path={path}, content=tag)",
    "read": "found[{key}] = len(await read(path='calc.py'))",
    "command": "found[{key}] = (await run_command(command=f'wc -c calc.py > {{tag}}.{number}'))",
    "scout": "found[{key}] = (await spawn(agent='scout', task=tag))['status']",
    "worker": "found[{key}] = (await spawn(agent='worker', task=tag))['changed']",
    "counter": "found[{key}] = (await spawn(agent='counter', task=tag))['summary']",
    "caught": (
        "try:\n        await read(path='missing')\n"
        "    except ValueError:\n        found[{key}] = 'caught'"
    ),
    "fails": "await read(path='missing')",
}

KINDS = {
    "scout": {"capabilities": ["look"]},
    "worker": {"capabilities": ["files"], "writes": True},
    "counter": {"capabilities": ["look", "ptc"]},
}
COUNTING = """
import asyncio
sum([len(each) for each in await asyncio.gather(read(path='calc.py'), read(path='tests'))])
"""

CALL = st.sampled_from([name for name in CALLS if name != "fails"]).map(lambda name: (name,))
BLOCK = st.recursive(
    st.lists(CALL, min_size=1, max_size=2),
    lambda blocks: st.lists(
        st.one_of(
            CALL,
            st.tuples(st.just("loop"), st.integers(1, 2), blocks),
            st.tuples(st.just("gather"), st.lists(blocks, min_size=2, max_size=3)),
        ),
        min_size=1,
        max_size=2,
    ),
    max_leaves=4,
)
AT_THE_END, BESIDE = "at the end", "beside the rest"
FAILS = st.sampled_from(["", "", AT_THE_END, BESIDE])


@dataclass
class Rendered:
    """A program as text. Every block is a function, which gets a tag that is unique in a run."""

    functions: list[str] = field(default_factory=list)
    numbers: Iterator[int] = field(default_factory=itertools.count)

    def program(self, block: Block) -> str:
        first = self._function(block)
        return "\n".join(
            [
                "import asyncio\nfound = {}",
                *self.functions,
                f"await {first}('t')\nsorted([[key, str(found[key])] for key in found])",
            ]
        )

    def _function(self, block: Block) -> str:
        lines = [self._statement(node) for node in block]
        name = f"block_{next(self.numbers)}"
        self.functions.append("\n".join([f"async def {name}(tag: str):", *lines]))
        return name

    def _statement(self, node: Node) -> str:
        number = next(self.numbers)
        match node:
            case ("loop", count, block):
                inner = self._function(block)
                call = f"await {inner}(f'{{tag}}-{number}-{{n}}')"
                return f"    for n in range({count}):\n        {call}"
            case ("gather", blocks):
                inner = [self._function(block) for block in blocks]
                calls = [f"{name}(f'{{tag}}-{number}-{n}')" for n, name in enumerate(inner)]
                return f"    await asyncio.gather({', '.join(calls)})"
            case (name,):
                key = f"f'{{tag}}-{number}'"
                return f"    {CALLS[name].format(key=key, path=key, number=number)}"
        raise AssertionError(node)


def program(block: Block, fails: str) -> str:
    """Return a program, with a failure that it does not catch at some place."""
    if fails == AT_THE_END:
        block = [*block, ("fails",)]
    if fails == BESIDE:
        block = [("gather", [block, [("scout",), ("fails",)]])]
    return Rendered().program(block)


class Unhurried(RoleModel):
    """A model whose answers come in any order."""

    async def complete(self, request: ModelRequest) -> ModelReply:
        await asyncio.sleep(random.uniform(0, 0.02))
        return await super().complete(request)


async def run(attempts: Attempts, code: str, dies_after: int | None = None) -> Outcome:
    writing: Said = [("write", {"path": "made.txt", "content": "made"})]
    reading: Said = [("read", {"path": "calc.py"})]
    scripts: dict[str, Any] = {
        "loop": [[("run_ptc", {"code": code})], DONE],
        "scout": [reading, DONE],
        "worker": [writing, DONE],
        "counter": [[("run_ptc", {"code": COUNTING})], DONE],
    }
    return await attempts.run(
        scripts,
        ["files", "shell", "subagents", "ptc"],
        model=Unhurried(scripts),
        dies_after=dies_after,
        subagents={"kinds": KINDS},
    )


async def undisturbed(folder: Path, code: str) -> Attempts:
    """Return the attempt that runs a program without a death."""
    folder.mkdir()
    whole = Attempts(folder)
    await run(whole, code)
    return whole


def ended(steps: list[RecordedStep]) -> dict[str, Any]:
    """Return the recorded end of the program, with the names of its calls in any order."""
    events = [step for step in steps if step.kind == "event" and step.scope == "work/run_ptc-1"]
    end: dict[str, Any] = json.loads(events[-1].result or b"")["content"]
    return {**end, "calls": {name: sorted(calls) for name, calls in end["calls"].items()}}


def written(attempts: Attempts) -> int:
    """Return the number of rows of an attempt: a model call has two, for its begin and its end."""
    return sum(2 if step.kind == "model" else 1 for step in attempts.recorded)


async def check(whole: Attempts, folder: Path, code: str, rows: int, *, is_timed: bool) -> None:
    """Check that a program that dies after so many rows ends as the undisturbed one does.

    If `is_timed`, the failure of one call decides how far others come.
    """
    folder.mkdir()
    killed = Attempts(folder)
    try:
        await run(killed, code, rows)
    except Died:
        pass
    else:  # the order of the calls decides how often the work tree is looked at
        assert written(killed) <= rows
        assert not killed.log.has_died
    before = killed.recorded
    in_flight = sum(step.kind == "model" and step.result is None for step in before)
    await run(killed, code)
    after = killed.recorded
    assert len(killed.model.asked) == len(bought(after)) - len(bought(before))
    assert killed.journal.account(killed.name).calls_billed == len(bought(after)) + in_flight
    check_trees(after)
    found, wanted = ended(after), ended(whole.recorded)
    assert (found["status"], found["error"]) == (wanted["status"], wanted["error"])
    if not is_timed:
        assert found == wanted
        assert results(after) == results(whole.recorded)


async def check_rows(block: Block, fails: str, choose: Callable[[int], Iterable[int]]) -> None:
    """Check deaths after the chosen rows of a program. `choose` gets their number."""
    code = program(block, fails)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        whole = await undisturbed(folder / "whole", code)
        assert ended(whole.recorded)["status"] == ("failed" if fails else "finished"), code
        least = written(whole) if fails != BESIDE else 8
        for rows in choose(least):
            is_timed = fails == BESIDE
            await check(whole, folder / f"died-{rows}", code, rows, is_timed=is_timed)


UNHURRIED = settings(
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    print_blob=True,
)


@pytest.mark.full
@pytest.mark.slow
@given(BLOCK, FAILS, st.integers(0, 1000))
@settings(UNHURRIED, max_examples=3)
def test_a_death_changes_nothing_of_a_program(block: Block, fails: str, number: int) -> None:
    """Value, calls and changes are those of a run without a death, and nothing is bought twice."""
    asyncio.run(check_rows(block, fails, lambda rows: [number % rows]))


@pytest.mark.full
@pytest.mark.timeout(1800)
@given(BLOCK, FAILS)
@settings(UNHURRIED, max_examples=8)
def test_a_death_at_any_row_changes_nothing_of_a_program(block: Block, fails: str) -> None:
    """As above, after every row of each program."""
    asyncio.run(check_rows(block, fails, range))
