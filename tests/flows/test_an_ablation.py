"""An ablation by a derived arm on a model that answers at random: its bill, cost and variance."""

import json
import random
from pathlib import Path
from statistics import pvariance
from typing import Any

import pytest

from eval import instances
from flows.benchmark import benchmark
from flows.experiments import declaration
from flows.experiments.declaration import Experiment
from flows.storage import report_files
from flows.storage.lake import Lake
from reports.format import usd
from tests.servers import openai_server as api

pytestmark = [pytest.mark.usefixtures("prefect"), pytest.mark.slow, pytest.mark.full]

INSTANCES, REPEATS = 30, 2
PRICE_USD = 1e-6
CALL_USD = PRICE_USD * sum(api.USAGE[kind] for kind in ("prompt_tokens", "completion_tokens"))


def answer(body: dict[str, Any]) -> api.Reply:
    """Answer a draft with `right` or `wrong`, half of the time each. A check repairs some."""
    asked = body["messages"][-1]["content"]
    if asked == "Draft.":
        return api.text(random.choice(["right", "wrong"]))
    if asked == "Check.":
        draft = body["messages"][-2]["content"]
        return api.text("right" if random.random() < 0.4 else draft)
    return api.text(f"My plan has number {random.random()}.")


@pytest.fixture
def dataset(tmp_path: Path) -> Path:
    """Return a dataset of thirty instances, each bundled one twice."""
    rows = [each.row for each in instances.load("bundled", "test")]
    path = tmp_path / "rows.jsonl"
    named = [
        {**row, "instance_id": f"{row['instance_id']}{suffix}"}
        for suffix in ("01", "02")
        for row in rows
    ]
    path.write_text("\n".join(map(json.dumps, named[:INSTANCES])))
    return path


def ablation(dataset: Path, url: str) -> Experiment:
    """Return three arms: a base, one with a check derived from it, and the same one alone."""
    agent = "tests.flows.ablated:solve"
    content = {
        "name": "ablation",
        "dataset": str(dataset),
        "environment": "host",
        "repeats": REPEATS,
        "model": {
            "provider": "litellm",
            "name": "openai/anything",
            "api_base": url,
            "input_cost_per_token": PRICE_USD,
            "output_cost_per_token": PRICE_USD,
        },
        "arms": [
            {"name": "base", "agent": agent, "options": {"check": False}},
            {"name": "checked", "from": "base", "options": {"check": True}},
            {"name": "alone", "agent": agent, "options": {"check": True}},
        ],
    }
    return declaration.parse(content, "test")


async def test_an_ablation_of_thirty_instances(
    dataset: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Billed is what the server was asked for, credited the arm alone, and noise is smaller."""
    monkeypatch.setenv("OPENAI_API_KEY", "throw-away")
    lake_path = str(tmp_path / "lake")
    with api.OpenAIServer(answer) as server:
        declared = ablation(dataset, server.url)
        await benchmark(declared, lake_path, grade=False)
        asked = len(server.requests)
    lake = Lake.existing(lake_path)
    cells = INSTANCES * REPEATS
    rows = {
        arm: {
            (row["instance_id"], row["repeat"]): row
            for unit in lake.units("attempts", "*", "ablation", arm)
            for row in lake.read("attempts", "ablation", arm, unit)
        }
        for arm in ("base", "checked", "alone")
    }
    assert {arm: len(found) for arm, found in rows.items()} == dict.fromkeys(rows, cells)
    billed = sum(row["billed_usd"] for found in rows.values() for row in found.values())
    assert asked == cells * (2 + 1 + 3)
    assert billed == pytest.approx(asked * CALL_USD)
    for arm, calls in (("base", 2), ("checked", 3), ("alone", 3)):
        assert all(row["cost_usd"] == pytest.approx(calls * CALL_USD) for row in rows[arm].values())
    assert {row["reused_calls"] for row in rows["checked"].values()} == {2}
    right = {arm: resolved(lake, arm) for arm in rows}
    shared, independent = (
        pvariance([right[arm][cell] - right["base"][cell] for cell in right["base"]])
        for arm in ("checked", "alone")
    )
    assert shared < independent
    sharing = report_files.read(lake, "ablation").section("sharing")
    assert sharing is not None
    assert sharing.answer.endswith(f"which saved {usd(2 * cells * CALL_USD)}.")


def resolved(lake: Lake, arm: str) -> dict[tuple[str, int], int]:
    """Return by cell whether the arm submitted the right patch."""
    return {
        (row["instance_id"], row["repeat"]): int(row["model_patch"] == "right")
        for unit in lake.units("predictions", "*", "ablation", arm)
        for row in lake.read("predictions", "ablation", arm, unit)
    }
