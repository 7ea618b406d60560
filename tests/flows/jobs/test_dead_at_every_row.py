"""A pipeline whose process is dead after any write of a row, and continued."""

from typing import Any

import pytest

from flows.jobs import rows
from flows.jobs.pipeline import pipeline as run_pipeline
from flows.storage.lake import Lake
from tests.flows.jobs.conftest import NAME, REPAIR, pipeline, step
from tests.servers.forge import Forge

pytestmark = [pytest.mark.usefixtures("prefect"), pytest.mark.slow]

RUN = "ab12cd34"
WRITES = 16
"""Writes of rows that a run with two steps makes at least."""
ALWAYS = 6
"""The number of writes after which the process dies in every test run."""


class Died(Exception):
    """The process would be dead by now."""


@pytest.mark.parametrize(
    "writes",
    [pytest.param(n, marks=[] if n == ALWAYS else pytest.mark.full) for n in range(WRITES)],
)
async def test_a_death_between_any_two_rows_changes_nothing(
    writes: int, forge: Forge, lake_path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run ends with each call bought once, one branch and one pull request."""
    asked = pipeline(step("fix", REPAIR), step("notes", "echo '# Notes' >NOTES.md", "fix"))
    left, update = writes, rows.update

    def mortal(*arguments: Any, **changes: Any) -> Any:
        nonlocal left
        if left == 0:
            raise Died
        left -= 1
        return update(*arguments, **changes)

    with monkeypatch.context() as dying:
        dying.setattr(rows, "update", mortal)
        with pytest.raises(Died):
            await run_pipeline(asked, lake_path, run=RUN)
    await run_pipeline(asked, lake_path, run=RUN)
    lake = Lake.existing(lake_path)
    steps = [f"job-{row['job_id']}" for row in lake.all_shared("jobs") if row["run"]]
    assert [len(lake.rows("llm_calls", name)) for name in steps] == [1, 1]
    [pull] = forge.pulls[NAME]
    assert forge.branches(NAME).keys() == {"main", pull["head"]["ref"]}
    assert forge.git(NAME, "rev-list", "--count", f"main..{pull['head']['ref']}") == "2"
