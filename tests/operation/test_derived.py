"""Derived arms whose cells are run by workers: rows, bill and order are those of one process."""

import hashlib
import json
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import pytest

from agent.journal import Journal
from flows.storage.lake import Lake
from tests.operation.running import begin, expect
from tests.servers import openai_server as api
from tests.servers.prefect_server import PrefectServer

pytestmark = [pytest.mark.slow, pytest.mark.full, pytest.mark.timeout(900)]

AGENT = "tests.flows.ablated:solve"
"""It makes two calls, and a third one with the setting `check`."""
REPEATS = 3
LATENCY_S = 0.5
"""Longer than a shard takes to its next cell, so that the bases of some cells are being solved."""
PRICE_USD = 1e-6
CALL_USD = PRICE_USD * sum(api.USAGE[kind] for kind in ("prompt_tokens", "completion_tokens"))


def answer(body: dict[str, Any]) -> api.Reply:
    """Answer equal requests equally."""
    asked = hashlib.sha256(json.dumps(body["messages"]).encode()).hexdigest()
    return api.slow(LATENCY_S, api.text(f"answer {asked}"))


@pytest.fixture
def model() -> Iterator[api.OpenAIServer]:
    with api.OpenAIServer(answer) as made:
        yield made


def arms(url: str) -> list[dict[str, Any]]:
    """Return a base, an arm derived from it, and one derived from that, the last one first."""
    model = {
        "name": "openai/anything",
        "api_base": url,
        "input_cost_per_token": PRICE_USD,
        "output_cost_per_token": PRICE_USD,
    }
    return [
        {"name": "same", "from": "checked", "options": {"other": 1}},
        {"name": "checked", "from": "base", "options": {"check": True}},
        {"name": "base", "agent": AGENT, "model": model},
    ]


def rows(server: PrefectServer, name: str) -> dict[tuple[str, str, int], dict[str, Any]]:
    """Return the attempts of an experiment by arm, instance and repeat."""
    lake = Lake.existing(server.folder / "lake")
    return {
        (arm, row["instance_id"], row["repeat"]): row
        for arm in ("base", "checked", "same")
        for unit in lake.units("attempts", "*", name, arm)
        for row in lake.read("attempts", name, arm, unit)
    }


def told(row: dict[str, Any]) -> tuple[Any, ...]:
    """Return what does not depend on the run and on the process."""
    columns = ("outcome", "model_calls", "input_tokens", "reused_calls")
    amounts = ("cost_usd", "billed_usd", "reused_usd")
    return (*(row[name] for name in columns), *(round(row[name], 9) for name in amounts))


def ends(server: PrefectServer, name: str) -> dict[str, datetime]:
    """Return when the last step of each attempt of an experiment ended, by attempt."""
    journal = Journal.open(f"sqlite:///{server.folder}/lake/journal.sqlite")
    progress = journal.progress(name)
    return {each.attempt.attempt_id: each.last_step_at for each in progress if each.last_step_at}


@pytest.mark.usefixtures("workers")
def test_workers_derive_as_one_process_does(server: PrefectServer, model: api.OpenAIServer) -> None:
    """Rows are equal, each answer is bought once, and no cell begins before its base has ended."""
    declared = {"arms": arms(model.url), "select": {"sample": 1}, "repeats": REPEATS}
    apart, alone = "derived", "derived-alone"
    expect(server, begin(server, name=apart, **declared))
    asked = len(model.requests)
    by_workers = rows(server, apart)
    expect(server, begin(server, name=alone, execution="local", **declared))
    by_one = rows(server, alone)

    assert len(by_one) == 3 * REPEATS
    assert {cell: told(row) for cell, row in by_workers.items()} == {
        cell: told(row) for cell, row in by_one.items()
    }
    assert asked == len(model.requests) - asked == REPEATS * (2 + 1)
    billed = sum(row["billed_usd"] for row in by_workers.values())
    assert billed == pytest.approx(asked * CALL_USD)
    last_steps = ends(server, apart)
    for (arm, *cell), row in by_workers.items():
        if arm == "base":
            continue
        base = by_workers[("checked" if arm == "same" else "base", *cell)]
        assert row["base_attempt_id"] == base["attempt_id"]
        assert row["reused_calls"] == base["model_calls"]
        assert row["started_at"] >= last_steps[base["attempt_id"]]
