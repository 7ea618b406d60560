"""A derived attempt that is killed at any journal write ends as one that was not disturbed."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from agent.journal import Journal
from flows.experiments.keys import attempt_key
from flows.storage import journals
from flows.storage.journals import open_journal
from flows.storage.lake import Lake
from tests.durability import deriving
from tests.durability.processes import FORKS, PATIENCE_S

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

POINTS = 12
"""The journal writes are divided into this many points of death."""

STRICT = attempt_key(deriving.cell("strict"))[:32]


def solve(
    lake: Path, folder: Path, arm: str, last: int | None = None, *, before: bool = False
) -> int | None:
    process = FORKS.Process(
        target=deriving.run, args=(str(lake), str(folder), arm, last), kwargs={"before": before}
    )
    process.start()
    process.join(timeout=PATIENCE_S)
    code = process.exitcode
    process.kill()
    return code


@pytest.fixture(scope="module")
def based(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a lake in which the base arm has been solved."""
    lake = tmp_path_factory.mktemp("based") / "lake"
    assert solve(lake, lake.parent, "lean") == 0
    return lake


@pytest.fixture(scope="module")
def undisturbed(based: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a copy of it in which the derived arm has been solved as well."""
    lake = tmp_path_factory.mktemp("undisturbed") / "lake"
    shutil.copytree(based, lake)
    assert solve(lake, based.parent, "strict") == 0
    return lake


def journal_of(lake: Path) -> Journal:
    journals.forget()
    return open_journal(Lake.existing(str(lake)))


def result(journal: Journal) -> dict[str, Any]:
    account = journal.account(STRICT)
    return {
        "steps": {
            step.place: (step.digest, step.copied, step.tree and step.tree.tree)
            for step in journal.steps(STRICT)
        },
        "credited": (account.calls_credited, round(account.credited_usd, 9)),
    }


@pytest.mark.parametrize(
    "share",
    [
        pytest.param(share, marks=[] if share == POINTS // 2 else pytest.mark.full)
        for share in range(POINTS)
    ],
)
def test_a_killed_derived_attempt_resumes(
    share: int, based: Path, undisturbed: Path, tmp_path: Path
) -> None:
    """It has the same steps, reuses the same ones, and buys one call again at most."""
    writes = int((undisturbed / "writes.txt").read_text())
    whole = journal_of(undisturbed)
    expected, bought = result(whole), whole.account(STRICT).calls_billed
    lake = tmp_path / "lake"
    shutil.copytree(based, lake)
    last = 1 + share * (writes - 1) // (POINTS - 1)
    assert solve(lake, based.parent, "strict", last, before=share % 2 == 0) != 0
    assert solve(lake, based.parent, "strict") == 0
    journal = journal_of(lake)
    assert result(journal) == expected
    assert bought <= journal.account(STRICT).calls_billed <= bought + 1
