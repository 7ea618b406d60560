"""Results: a lake of Parquet files, and the commands that read it.

All tests share one finished experiment of two arms, two instances and two repeats, which
conftest.py declares.
"""

import asyncio
import json
from pathlib import Path

import duckdb
import pytest
from click.testing import Result
from typer.testing import CliRunner

from flows.cli.app import app
from flows.experiments import declaration
from flows.experiments.declaration import Experiment
from flows.storage import report_files
from flows.storage.journals import open_journal
from flows.storage.lake import Lake

pytestmark = pytest.mark.slow


def durabench(lake: Lake, *arguments: str) -> Result:
    """Run a command on the lake and check that it succeeds."""
    result = CliRunner().invoke(app, [*arguments, "--lake", str(lake.root)])
    assert result.exit_code == 0, result.output
    return result


def attempt_of(lake: Lake, arm: str) -> str:
    """Return the id of an attempt of an arm."""
    return lake.units("attempts", "*", "finished", arm)[0]


def test_any_duckdb_reads_the_lake(finished: Lake) -> None:
    """One row is one model call, with its tokens and its price. They add up to the attempts."""
    [(calls, usd)] = duckdb.sql(
        f"select count(*), sum(cost_usd) from '{finished.root}/llm_calls/**/*.parquet'"
    ).fetchall()
    [attempts] = duckdb.sql(
        f"select sum(model_calls), sum(cost_usd) from '{finished.root}/attempts/**/*.parquet'"
    ).fetchall()
    assert calls > 0
    assert attempts == (calls, pytest.approx(usd))


def test_a_report_compares_pairs(finished: Lake) -> None:
    """A report compares arms on the same cells, and every planned cell stays in the denominator."""
    built = report_files.read(finished, "finished")
    assert [(arm.name, arm.resolved, arm.planned) for arm in built.arms] == [
        ("able", 4, 4),
        ("null", 0, 4),
    ]
    [pair] = built.comparisons
    assert pair.role == "primary"
    table = pair.table
    assert (table.both, table.only_candidate, table.only_baseline, table.neither) == (0, 4, 0, 0)


def test_repeats_are_no_further_instances(finished: Lake) -> None:
    """Two repeats of two instances are two independent observations, not four."""
    [pair] = report_files.read(finished, "finished").comparisons
    assert (pair.table.pairs, pair.leads.instances) == (4, 2)
    assert pair.p_value == pytest.approx(0.5)  # that of two instances without repeats


def test_the_report_is_one_page(finished: Lake) -> None:
    """The report states what it measures and loads no external files.

    Trajectories have their own pages beside it.
    """
    page = Path(str(report_files.page_path(finished, "finished")))
    text = page.read_text()
    assert "simulated model" in text
    assert 'src="http' not in text
    assert 'rel="stylesheet"' not in text
    assert len(list(page.parent.rglob("*.html"))) > 1


def test_status_shows_how_far_an_experiment_is(finished: Lake) -> None:
    """`status` prints a table for people, or with --json an object for programs."""
    told = json.loads(durabench(finished, "status", "finished", "--json").stdout)
    assert (told["planned"], told["resolved"], told["states"]["done"]) == (8, 4, 8)
    assert told["cost_usd"] > 0


def test_a_trace_lists_the_steps_of_an_attempt(finished: Lake) -> None:
    """A trace prints one line for each step, then the outcome of the attempt and its cost."""
    attempt_id = attempt_of(finished, "able")
    *steps, last = durabench(finished, "trace", attempt_id).stdout.splitlines()
    assert len(steps) == len(open_journal(finished).steps(attempt_id))
    assert last.startswith(f"{attempt_id}: submitted (Submitted); $")


def test_an_export_is_what_the_official_harness_takes(finished: Lake, tmp_path: Path) -> None:
    """Each arm has an `all_preds.jsonl` with three fields per line."""
    durabench(finished, "export", "finished", "--output", str(tmp_path))
    lines = (tmp_path / "able" / "all_preds.jsonl").read_text().splitlines()
    assert len(lines) == 2
    assert json.loads(lines[0]).keys() == {"instance_id", "model_name_or_path", "model_patch"}


@pytest.mark.full
async def test_a_recording_answers_another_run(copied: Lake, tmp_path: Path) -> None:
    """The exported model calls of an experiment serve as a model for the next, without a key."""
    from flows.benchmark import benchmark

    command = ["export", "finished", "--trajectories", "--output", str(tmp_path / "recorded")]
    await asyncio.to_thread(durabench, copied, *command)
    again = declaration.parse(
        {
            "name": "again",
            "environment": "host",
            "select": {"sample": 1},
            "arms": [{"name": "able", "agent": "mini"}],
            "model": {"provider": "recorded", "path": str(tmp_path / "recorded" / "able")},
        },
        "walkthrough",
    )
    await benchmark(again, str(copied.root), grade=False)
    [replayed] = copied.rows("predictions", "again")
    patches = {
        row["instance_id"]: row["model_patch"]
        for row in copied.rows("predictions", "finished")
        if row["repeat"] == 0 and row["model_patch"] == replayed["model_patch"]
    }
    assert replayed["instance_id"] in patches


def test_power_says_beforehand_what_a_run_can_show(finished: Lake) -> None:
    """`power` can take the discordance from an earlier experiment."""
    alone = durabench(finished, "power", "--instances", "500").stdout
    assert "500 instances" in alone
    earlier = durabench(finished, "power", "--instances", "500", "--from", "finished").stdout
    assert "finished" in earlier


async def test_a_prune_removes_steps_and_keeps_results(copied: Lake, declared: Experiment) -> None:
    """The journal drops the steps of finished attempts. Rows and bills are kept, so that
    running the experiment again costs nothing."""
    from flows.benchmark import benchmark

    attempt_id = attempt_of(copied, "able")
    billed = open_journal(copied).account(attempt_id).billed_usd
    command = ["prune", "--only", "steps", "--older-than", "0h", "--remove"]
    await asyncio.to_thread(durabench, copied, *command)
    journal = open_journal(copied)
    assert journal.steps(attempt_id) == []
    files = set(Path(copied.root).rglob("*.parquet"))
    await benchmark(declared, str(copied.root))
    assert set(Path(copied.root).rglob("*.parquet")) == files
    assert journal.account(attempt_id).billed_usd == billed > 0
