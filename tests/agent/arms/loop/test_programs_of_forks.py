"""Forks that reuse the steps of programs: they make the same calls, and may die inside them."""

import asyncio
from typing import Any

import pytest

from agent.models.protocol import ModelReply, ModelRequest
from agent.session.log import JournalLog
from tests.agent.arms.durable.conftest import RoleModel, Said
from tests.agent.arms.loop.conftest import DONE, Attempts, Died, bought, check_trees

KINDS = {"scout": {"capabilities": ["look"]}, "worker": {"capabilities": ["files"], "writes": True}}

BRANCHES = """
import asyncio

async def branch(name):
    first = await spawn(agent="scout", task=f"{name}, first")
    await write(path=f"{name}.txt", content=name)
    return await spawn(agent="worker", task=f"{name}, second")

made = await asyncio.gather(branch("one"), branch("two"))
await merge(ref=made[0]["ref"])
"""
TWICE: Said = [
    ("run_ptc", {"code": BRANCHES}),
    ("run_ptc", {"code": "await write('own.txt', 'own')"}),
]

APART: Said = [TWICE[0], ("run_ptc", {"code": "await spawn(agent='scout', task='own')"})]
"""Two programs of which one uses the workspace.

No record says which of two would get it first, so that a fork may have another order.
"""


class SecondFirst(RoleModel):
    """A model that answers about `one` only after it has answered about `two`."""

    answered: asyncio.Event

    async def complete(self, request: ModelRequest) -> ModelReply:
        task = str(request.messages[1]["content"])
        if "one, first" in task:
            await self.answered.wait()
        reply = await super().complete(request)
        if "two, second" in task:
            self.answered.set()
        return reply


async def solve(
    attempts: Attempts, programs: Said, dies_after: int | None = None, **options: Any
) -> None:
    """Run the attempt, or a fork of it, whose model answers at once."""
    writing: Said = [("write", {"path": "made.txt", "content": "made"})]
    scripts: dict[str, Any] = {
        "loop": [programs, DONE],
        "scout": [DONE],
        "worker": [writing, DONE],
    }
    model = SecondFirst(scripts)
    model.answered = asyncio.Event()
    if attempts.name == "fork":
        model.answered.set()
    tools = ["files", "subagents", "ptc"]
    await attempts.run(
        scripts, tools, model=model, dies_after=dies_after, subagents={"kinds": KINDS}, **options
    )


@pytest.mark.slow
@pytest.mark.parametrize("delay_s", [0.0, 0.2])
async def test_a_fork_gives_results_in_the_order_of_its_parent(
    attempts: Attempts, delay_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its calls then have the numbers of those of its parent, so that all are reused.

    A slow journal does not let a later step change the tree at which a subagent begins.
    """
    flush = JournalLog.flush

    async def flush_later(log: JournalLog) -> None:
        await asyncio.sleep(delay_s)
        await flush(log)

    monkeypatch.setattr(JournalLog, "flush", flush_later)
    await solve(attempts, APART)
    fork = attempts.fork()
    await solve(fork, APART)
    assert bought(fork.recorded) == bought(attempts.recorded)
    assert [step.place for step in fork.recorded if not step.copied and step.kind != "event"] == []
    assert (fork.model.asked, fork.workspaces.opened) == ([], [])


@pytest.mark.slow
@pytest.mark.timeout(120)
@pytest.mark.parametrize("rows", range(0, 30, 3))
async def test_a_fork_that_died_inside_a_program_goes_on(attempts: Attempts, rows: int) -> None:
    """It buys nothing, and its steps begin at the trees that those before them left."""
    await solve(attempts, TWICE)
    fork = attempts.fork()
    with pytest.raises(Died):
        await solve(fork, TWICE, rows, protect_tests=False)
    await solve(fork, TWICE, protect_tests=False)
    assert fork.model.asked == []
    check_trees(fork.recorded)
    assert fork.journal.account(fork.name).calls_billed == 0
