"""Derived arms in real runs: what is shared, bought, billed and credited, also after a kill."""

import signal
import tempfile
from typing import Any

import pytest

from agent.journal import Journal
from flows.benchmark import benchmark
from flows.experiments.declaration import Experiment
from flows.experiments.keys import attempt_key
from flows.experiments.plan import prepare
from flows.experiments.records import get_journal_attempt
from flows.operation import pruning
from flows.server import caching
from flows.solve import solve
from flows.storage.journals import open_journal
from flows.storage.lake import Lake
from tests.durability import deriving
from tests.durability.processes import FORKS, PATIENCE_S
from tests.flows.conftest import Finished, trial

pytestmark = [pytest.mark.usefixtures("prefect"), pytest.mark.slow]

LEAN = {"name": "lean", "agent": "durable"}
SAME = {"name": "same", "from": "lean", "options": {"profile": {"repairs": 3}}}
"""It asks for the same, as no change is rejected."""
STRICT = {"name": "strict", "from": "lean", "options": {"profile": {"review": "always"}}}
"""It asks for one more thing, behind everything else."""
HALF = 9
"""The journal write after which the base is killed: it has some answers, and no patch."""
AFTER = {"before": False}


def derived(*arms: dict[str, Any], **content: Any) -> Experiment:
    model = {"provider": "simulated", "skill": 1, "exploration": 1}
    given = {"primary": None, "select": {"sample": 1}, "model": model, **content}
    return trial(arms=[LEAN, *arms], **given)


async def ids(declared: Experiment, lake_path: str) -> dict[str, str]:
    plan = await prepare(declared, lake_path)
    return {cell.arm.name: attempt_key(cell)[:32] for cell in plan.cells}


async def test_only_what_differs_is_bought(finished: Finished, lake_path: str) -> None:
    """An arm whose options change nothing buys nothing; one with a review buys the review."""
    declared = derived(SAME, STRICT)
    lake = await finished.copy(declared, lake_path)
    journal = open_journal(lake)
    by_arm = await ids(declared, lake_path)
    accounts = {arm: journal.account(attempt_id) for arm, attempt_id in by_arm.items()}
    steps = {arm: journal.steps(attempt_id) for arm, attempt_id in by_arm.items()}
    assert accounts["same"].calls_billed == 0
    assert accounts["same"].credited_usd == accounts["lean"].billed_usd
    assert all(step.copied for step in steps["same"])
    bought = [step for step in steps["strict"] if step.kind == "model" and not step.copied]
    assert accounts["strict"].calls_billed == len(bought) == 1
    assert b"final_reviewer" in bought[0].request
    assert accounts["strict"].credited_usd == pytest.approx(
        accounts["lean"].billed_usd + accounts["strict"].billed_usd
    )


@pytest.mark.full
async def test_a_cell_in_which_nothing_changed_is_one_task_run(
    finished: Finished, lake_path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The base is finished and the patch is graded, so that only the attempt is one."""
    lake = await finished.copy(derived(), lake_path)
    begun: list[str] = []

    async def counted(task: Any, *given: Any, **options: Any) -> Any:
        begun.append(task.name)
        return await caching.result_of(task, *given, **options)

    for module in ("flows.cells.attempts", "flows.cells.verdicts"):
        monkeypatch.setattr(f"{module}.result_of", counted)
    declared = derived(SAME)
    await benchmark(declared, lake_path)
    assert begun == ["attempt"]
    by_arm = await ids(declared, lake_path)
    verdicts = [
        {name: row[name] for name in ("outcome", "started_at", "patch_sha256")}
        for arm in ("lean", "same")
        for unit in lake.units("evaluations", f"{by_arm[arm]}-*")
        for row in lake.read("evaluations", "trial", arm, unit)
    ]
    assert len(verdicts) == 2
    assert verdicts[0] == verdicts[1]


@pytest.mark.full
async def test_a_base_that_was_interrupted_is_continued_first(lake_path: str) -> None:
    """A cell whose base was killed half-way resumes that, and buys none of its calls again."""
    base, strict = (attempt_key(deriving.cell(arm))[:32] for arm in ("lean", "strict"))
    killed = FORKS.Process(
        target=deriving.run, args=(lake_path, tempfile.gettempdir(), "lean", HALF), kwargs=AFTER
    )
    killed.start()
    killed.join(PATIENCE_S)
    assert killed.exitcode == -signal.SIGKILL
    journal = open_journal(Lake.existing(lake_path))
    bought = calls(journal, base)
    assert bought
    assert journal.outcome(base) is None
    declared = deriving.cell("strict").experiment
    assert await solve(declared, deriving.INSTANCE, "strict", lake=lake_path) == "resolved"
    assert bought.items() < calls(journal, base).items()
    account = journal.account(base)
    assert account.calls_credited == len(calls(journal, base))
    assert account.calls_billed - account.calls_credited <= 1  # one may have been in flight
    assert journal.account(strict).calls_billed == 1


def calls(journal: Journal, attempt_id: str) -> dict[str, bytes]:
    """Return the answers of an attempt's model calls, by their places."""
    steps = journal.steps(attempt_id)
    return {step.place: step.result for step in steps if step.kind == "model" and step.result}


@pytest.mark.full
async def test_the_base_of_an_unfinished_attempt_is_not_pruned(
    finished: Finished, lake_path: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """`durabench prune` keeps the steps that a derived attempt still needs."""
    lake = await finished.copy(derived(), lake_path)
    declared = derived(STRICT)
    by_arm = await ids(declared, lake_path)
    journal = open_journal(lake)
    plan = await prepare(declared, lake_path)
    [cell] = [each for each in plan.cells if each.arm.name == "strict"]
    journal.start(get_journal_attempt(cell, by_arm["strict"]))
    pruning.prune(lake_path, "0h", None, ["steps"], results=False, remove=True)
    assert "1 keep theirs, because attempts that reuse them have not ended" in (
        capsys.readouterr().out
    )
    assert journal.steps(by_arm["lean"])
