"""A fork keeps the paid steps and runs the rest anew; `trace` shows both."""

import asyncio
import json
import re
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from flows.cli.app import app
from flows.display.errors import UsageError
from flows.experiments import forking
from flows.solve import solve
from flows.storage.journals import open_journal
from flows.storage.lake import Lake
from tests.flows.conftest import Finished, trial

pytestmark = [pytest.mark.usefixtures("prefect"), pytest.mark.slow]


@pytest.fixture
async def attempt_id(finished: Finished, lake_path: str) -> str:
    """Return the id of a finished attempt of the able arm in the lake."""
    arms = [{"name": "able", "agent": "mini", "model": {"provider": "simulated", "skill": 1}}]
    lake = await finished.copy(trial(arms=arms, primary=None, select={"sample": 1}), lake_path)
    [found] = lake.units("attempts", "*")
    return found


async def test_a_fork_pays_only_for_new_steps(attempt_id: str, lake_path: str) -> None:
    """The kept steps are credited and not billed, and the same model arrives at the same patch."""
    lake = Lake.existing(lake_path)
    request = forking.check(attempt_id[:10], "4", lake_path)
    made = await asyncio.to_thread(forking.fork, request)
    assert made.kept_steps == 4
    outcome = await solve(made.experiment, made.instance_id, made.arm, lake=lake_path)
    assert outcome == "resolved"
    [child] = lake.units("attempts", "*", made.experiment.name)
    journal = open_journal(lake)
    whole, forked = journal.account(attempt_id), journal.account(child)
    assert forked.calls_credited == whole.calls_credited
    assert forked.calls_billed == whole.calls_billed - 2
    assert forked.billed_usd < whole.billed_usd
    [old], [new] = (lake.find("predictions", unit) for unit in (attempt_id, child))
    assert new["model_patch"] == old["model_patch"]


async def test_an_unknown_attempt_or_step_cannot_be_forked(attempt_id: str, lake_path: str) -> None:
    """An unknown attempt and an unknown step are refused by name."""
    with pytest.raises(UsageError, match="has no step 99"):
        forking.check(attempt_id, "99", lake_path)
    with pytest.raises(UsageError, match="0 attempts .* begin with 'zz'"):
        forking.check("zz", "1", lake_path)


async def test_a_removed_option_of_an_experiment_is_named(attempt_id: str, lake_path: str) -> None:
    """A fork of an attempt whose experiment asked for a removed option is refused in one line."""
    [path] = Path(lake_path).glob("experiments/experiment=trial/arm=*/*.parquet")
    table = pq.ParquetFile(path).read()
    declaration = json.loads(table["declaration"][0].as_py())
    [arm] = declaration["arms"]
    profile = {"preset": "lean", "approaches": 2}
    declaration["arms"] += [
        {**arm, "name": "old", "agent": "durable", "options": {"profile": profile}}
    ]
    place = table.column_names.index("declaration")
    changed = table.set_column(place, "declaration", pa.array([json.dumps(declaration)]))
    pq.write_table(changed, path)
    with pytest.raises(UsageError, match=r"^experiment 'trial' as declared: .*: write 1 or 0$"):
        forking.check(attempt_id, "2", lake_path)


async def test_a_trace_shows_every_step_and_what_it_cost(attempt_id: str, lake_path: str) -> None:
    """A trace shows every step of the journal by number, then the outcome and the cost."""
    arguments = ["trace", attempt_id[:12], "--lake", lake_path, "--follow"]
    result = await asyncio.to_thread(CliRunner().invoke, app, arguments)
    assert result.exit_code == 0, result.output
    line = r"^\d\d:\d\d:\d\d  (\d+) +(?:model|command) .* \d+\.\d s$"
    steps = re.findall(line, result.stdout, re.MULTILINE)
    assert len(result.stdout.splitlines()) == len(steps) + 1
    recorded = open_journal(Lake.existing(lake_path)).steps(attempt_id)
    assert [int(step) for step in steps] == list(range(len(recorded)))
    assert "submitted (Submitted); $" in result.stdout
