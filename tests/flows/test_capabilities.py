"""`flows/experiments/capabilities.yaml` as a whole: what is spent adds up, programs save calls."""

from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
import yaml

from flows.benchmark import benchmark
from flows.experiments import declaration
from flows.storage.journals import open_journal
from flows.storage.lake import Lake
from tests.flows.test_benchmark import rows

pytestmark = [
    pytest.mark.usefixtures("prefect"),
    pytest.mark.full,
    pytest.mark.slow,
    pytest.mark.timeout(1800),
]

DECLARED = Path(__file__).parents[2] / "flows" / "experiments" / "capabilities.yaml"
SEEDS = 5
"""`make bench capabilities` checks the same over more instances and seeds."""


async def test_capabilities_cost_what_the_ledger_says(lake_path: str) -> None:
    """Programs need fewer calls, and the calls of all scopes are on record."""
    content = yaml.safe_load(DECLARED.read_text(encoding="utf-8"))
    content |= {"environment": "host", "select": {"sample": 1}, "repeats": SEEDS}
    await benchmark(declaration.parse(content, DECLARED.name), lake_path)
    lake = Lake.existing(lake_path)
    attempts, calls = rows(lake_path, "attempts"), rows(lake_path, "llm_calls")
    assert len(attempts) == SEEDS * len(content["arms"])
    check_ledger(lake, attempts, calls)
    journal = open_journal(lake)
    place = {each: journal.attempt(each) for each in (row["attempt_id"] for row in attempts)}
    made = {(arm_of(place, row), row["repeat"]): row["model_calls"] for row in attempts}
    for repeat in range(SEEDS):
        assert made["loop-ptc", repeat] < made["loop", repeat]


def arm_of(attempts: dict[str, Any], row: dict[str, Any]) -> str:
    return str(attempts[row["attempt_id"]].arm)


def check_ledger(lake: Lake, attempts: list[Any], calls: list[Any]) -> None:
    """Check that the calls of every attempt, in all its scopes, add up to its account."""
    journal = open_journal(lake)
    costs: dict[str, list[float]] = defaultdict(list)
    for call in calls:
        costs[call["attempt_id"]].append(call["cost_usd"])
    for attempt in attempts:
        account = journal.account(attempt["attempt_id"])
        own = costs[attempt["attempt_id"]]
        assert account.calls_billed == account.calls_credited == len(own) == attempt["model_calls"]
        assert account.billed_usd == pytest.approx(sum(own))
        assert attempt["cost_usd"] == pytest.approx(sum(own))
