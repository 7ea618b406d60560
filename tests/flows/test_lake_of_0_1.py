"""A lake and a journal of release 0.1 can be resumed, and nothing is paid for again.

`lake_of_0_1/` contains both as `durabench run` of that release left them: `legacy` finished, and
`legacy-stopped` was killed while its durable arm was working. That arm has a later version now.
"""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from agent.arms import ARMS
from flows.benchmark import benchmark
from flows.display.errors import UsageError
from flows.experiments import declaration, forking
from tests.archives import unpack

FOLDER = Path(__file__).with_name("lake_of_0_1")

pytestmark = [pytest.mark.usefixtures("prefect"), pytest.mark.slow]


@pytest.fixture
def old_lake(tmp_path: Path) -> Path:
    unpack(FOLDER / "lake.tar.xz", tmp_path / "lake")
    return tmp_path / "lake"


def bought(lake: Path, name: str) -> dict[tuple[str, str, int], int]:
    """Return how often each model call of an experiment was made, by arm, scope and number."""
    query = """
        select arm, scope, seq, count(*) from ledger join attempts using (attempt_id)
        where experiment = ? group by arm, scope, seq
    """
    with closing(sqlite3.connect(lake / "journal.sqlite")) as database:
        return {tuple(row[:3]): row[3] for row in database.execute(query, [name])}


async def test_a_finished_experiment_is_not_paid_for_again(old_lake: Path) -> None:
    """Arms whose agents are unchanged are found under their keys and not paid for again."""
    before = bought(old_lake, "legacy")
    declared = declaration.load(FOLDER / "legacy.yaml")
    unchanged = [arm for arm in declared.arms if ARMS[arm.agent].version == 1]
    await benchmark(declared.model_copy(update={"arms": unchanged}), str(old_lake))
    assert bought(old_lake, "legacy") == before
    assert {arm for arm, *_ in before} == {"mini", "mini-strict", "durable", "careful"}


async def test_attempts_of_an_earlier_version_are_refused(old_lake: Path) -> None:
    """Attempts of an earlier agent version are refused before anything is paid for."""
    before = bought(old_lake, "legacy")
    declared = declaration.load(FOLDER / "legacy.yaml")
    with pytest.raises(UsageError, match=r"by version 1 of the durable agent.* another name"):
        await benchmark(declared, str(old_lake))
    assert bought(old_lake, "legacy") == before


def test_an_attempt_is_forked(old_lake: Path) -> None:
    """An attempt can be forked although its declaration holds options of other agents."""
    with closing(sqlite3.connect(old_lake / "journal.sqlite")) as database:
        [attempt] = database.execute("select attempt_id from attempts where arm = 'mini-strict'")
    made, kept = forking.fork(forking.check(attempt[0], "3", str(old_lake)))
    assert kept == 3
    assert made.experiment.arms[0].options.step_limit == 40
