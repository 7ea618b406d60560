"""Attempts of our own arms as ATIF trajectories and as a log of Inspect, and back."""

import os
import warnings
from pathlib import Path
from typing import Any

import pytest
from atif import Trajectory

from flows.experiments.declaration import Experiment
from flows.formats import atif, exports, filing
from flows.storage.lake import Lake, Row
from tests.agent.arms.command.programs import tiny
from tests.flows.conftest import Finished, trial
from tests.flows.formats.test_atif_export import HARBOR, harbor_errors

pytestmark = [
    pytest.mark.full,
    pytest.mark.usefixtures("prefect"),
    pytest.mark.slow,
    pytest.mark.timeout(600),
]

SAME = (
    "agent", "model", "outcome", "detail", "started_at", "duration_s", "model_calls", "versions",
    "unpriced_calls", "input_tokens", "cache_read_tokens", "cache_write_tokens", "output_tokens",
    "reasoning_tokens", "cost_usd", "repo", "difficulty",
)  # fmt: skip
"""Columns of an attempt that every export keeps."""

OF_CALL = (
    "role", "model", "input_tokens", "output_tokens", "cache_read_tokens", "cost_usd",
    "latency_s", "started_at",
)  # fmt: skip
"""Columns of a call that every export keeps, besides its scope. The calls of a program are in its
main line."""


def declared() -> Experiment:
    """Return an experiment with every kind of arm: text and tools, scopes, programs, controls."""
    model = {"provider": "simulated", "skill": 1}
    return trial(
        model=model,
        select={"ids": ["durabench__slotwise-2"]},
        primary=None,
        arms=[
            {"name": "mini", "agent": "mini"},
            {"name": "durable", "agent": "durable"},
            *[
                {"name": dialect, "agent": "command", "options": {"recipe": _recipe(dialect)}}
                for dialect in ("messages", "responses")
            ],
            {"name": "gold", "agent": "gold"},
        ],
    )


def _recipe(dialect: str) -> dict[str, Any]:
    return tiny(dialect, volatile=["metadata"], probe="echo tiny 1.0").model_dump(mode="json")


@pytest.fixture
async def lake(finished: Finished, lake_path: str) -> Lake:
    return await finished.copy(declared(), lake_path)


def known(lake: Lake, table: str, columns: tuple[str, ...], name: str = "trial") -> list[str]:
    """Return columns of all rows of a table, by arm."""
    return sorted(
        str([arm, *(_plain(row[column]) for column in columns)])
        for arm in ("mini", "durable", "messages", "responses", "gold")
        for row in _rows(lake, table, name, arm)
    )


def _rows(lake: Lake, table: str, name: str, arm: str) -> list[Row]:
    units = lake.units(table, "*", name, arm)
    return [row for unit in units for row in lake.read(table, name, arm, unit)]


def _plain(value: object) -> object:
    return round(value, 6) if isinstance(value, float) else value


def check_same(one: Lake, other: Lake) -> None:
    """Check that two lakes know the same figures, patches and verdicts."""
    assert known(other, "attempts", SAME) == known(one, "attempts", SAME)
    assert known(other, "llm_calls", OF_CALL) == known(one, "llm_calls", OF_CALL)
    for arm in ("mini", "durable"):
        scopes = [
            [row["scope"] for row in _rows(lake, "llm_calls", "trial", arm)]
            for lake in (one, other)
        ]
        assert sorted(scopes[0]) == sorted(scopes[1])
    for table in ("predictions", "evaluations"):
        columns = ("instance_id", "repeat", "patch_sha256")
        assert known(other, table, columns) == known(one, table, columns)
    assert known(other, "evaluations", ("outcome",)) == known(one, "evaluations", ("outcome",))


async def test_an_export_as_trajectories_keeps_every_figure(lake: Lake, tmp_path: Path) -> None:
    """Every arm's attempt is a valid trajectory. Importing them gives the same calls, costs,
    patches and verdicts; scopes are subagents that the main line refers to."""
    paths = list(exports.trajectories("trial", tmp_path / "out", str(lake.root)))
    assert len(paths) == 5
    again = Lake(tmp_path / "again")
    filing.file(atif.read([tmp_path / "out"]), "trial", None, str(again.root))
    check_same(lake, again)
    [whole] = [
        Trajectory.model_validate_json(p.read_bytes()) for p in paths if "durable" in p.parts
    ]
    names = {each.trajectory_id for each in whole.subagent_trajectories or ()}
    assert "index" in names
    assert names == {row["scope"] for row in _rows(lake, "steps", "trial", "durable")} - {""}
    assert names <= set(_referred(whole))
    [own] = [Trajectory.model_validate_json(p.read_bytes()) for p in paths if "messages" in p.parts]
    [row] = _rows(lake, "attempts", "trial", "messages")
    assert (own.agent.name, own.agent.version) == ("tiny", "tiny 1.0")
    assert own.subagent_trajectories is None
    assert sum(step.llm_call_count or 0 for step in own.steps) == row["model_calls"]
    assert own.steps[0].source == "user"
    if python := os.environ.get(HARBOR):
        assert harbor_errors(python, paths) == ""


def _referred(trajectory: Trajectory) -> list[str | None]:
    """Return the subagents that a trajectory and its subagents refer to."""
    return [
        ref.trajectory_id
        for each in (trajectory, *(trajectory.subagent_trajectories or ()))
        for step in each.steps
        for result in (step.observation.results if step.observation else ())
        for ref in result.subagent_trajectory_ref or ()
    ]


async def test_an_export_as_a_log_of_inspect_keeps_every_figure(lake: Lake, tmp_path: Path) -> None:
    """Inspect reads the log, shows the rates of the report, and its import gives the same."""
    pytest.importorskip("inspect_ai", reason="needs the package inspect-ai")
    from inspect_ai.analysis import evals_df, samples_df
    from inspect_ai.log import read_eval_log

    from flows.formats import inspect_import

    log = tmp_path / "trial.eval"
    assert exports.inspect_log("trial", log, str(lake.root)) == 5
    for logged in read_eval_log(str(log)).samples or ():
        asked = [message for message in logged.messages if message.role == "assistant"]
        calls = [event for event in logged.events if event.event == "model"]
        assert logged.messages[0].text == logged.input or logged.messages[0].role == "system"
        assert len(asked) == len(calls)
    again = Lake(tmp_path / "again")
    filing.file(inspect_import.read([log], None), "trial", None, str(again.root))
    check_same(lake, again)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Inspect uses what pandas deprecates
        [run] = evals_df(str(log), quiet=True).to_dict("records")
        samples = samples_df(str(log), quiet=True).set_index("id")
    assert (run["score_mini_accuracy"], run["score_gold_accuracy"]) == (1.0, 1.0)
    attempts = {arm: _rows(lake, "attempts", "trial", arm)[0] for arm in ("mini", "durable")}
    for arm, row in attempts.items():
        sample = samples.loc[f"durabench__slotwise-2@{arm}"]
        assert sample["total_tokens"] == row["input_tokens"] + row["output_tokens"]
        assert sample["total_time"] == pytest.approx(row["duration_s"])
        assert sample["score_resolved"] == "C"
