"""Derived arms in real runs: shared steps are neither bought nor billed again."""

from typing import Any

import pytest

from flows.experiments.declaration import Experiment
from flows.experiments.keys import attempt_key
from flows.experiments.plan import prepare
from flows.storage.journals import open_journal
from tests.flows.conftest import Finished, trial

pytestmark = [pytest.mark.usefixtures("prefect"), pytest.mark.slow]

LEAN = {"name": "lean", "agent": "durable"}
SAME = {"name": "same", "from": "lean", "options": {"profile": {"repairs": 3}}}
"""It asks for the same, as no change is rejected."""
STRICT = {"name": "strict", "from": "lean", "options": {"profile": {"review": "always"}}}
"""It asks for one more thing, behind everything else."""


def derived(*arms: dict[str, Any], **content: Any) -> Experiment:
    model = {"provider": "simulated", "skill": 1, "exploration": 1}
    given = {"primary": None, "select": {"sample": 1}, "model": model, **content}
    return trial(arms=[LEAN, *arms], **given)


async def ids(declared: Experiment, lake_path: str) -> dict[str, str]:
    plan = await prepare(declared, lake_path)
    return {cell.arm.name: attempt_key(cell)[:32] for cell in plan.cells}


@pytest.mark.full
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
