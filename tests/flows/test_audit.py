"""Gradings record an audited verdict beside the official one, and a second grading confirms it."""

import json
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from eval import instances
from flows.grade import grade
from flows.storage.lake import Lake
from reports.relations import open_marts
from tests.flows.conftest import Finished
from tests.suspect import HOOK

pytestmark = [pytest.mark.usefixtures("prefect"), pytest.mark.slow]

FIRST, SECOND = instances.load("bundled")[:2]


def predictions(folder: Path, patches: dict[str, str]) -> Path:
    """Write a `preds.json` of another team. Return its path."""
    path = folder / "preds.json"
    content = {
        instance_id: {"model_name_or_path": "somebody", "model_patch": patch}
        for instance_id, patch in patches.items()
    }
    path.write_text(json.dumps(content))
    return path


UNSTABLE = FIRST.patch.replace(
    "+import unicodedata\n", "+import unicodedata; assert '-audit-' not in __file__\n"
)
"""The reference patch, changed so that its results depend on the folder in which it runs."""


def evaluations(lake_path: str) -> dict[str, dict[str, Any]]:
    lake = Lake.existing(lake_path)
    rows = [
        row for unit in lake.units("evaluations", "*") for row in lake.find("evaluations", unit)
    ]
    assert len(rows) == len({row["instance_id"] for row in rows})
    return {row["instance_id"]: row for row in rows}


HOOKED = {FIRST.instance_id: FIRST.patch, SECOND.instance_id: HOOK}
"""A repair, and a hook that passes failures."""


@pytest.fixture
async def graded(finished: Finished, lake_path: str, tmp_path: Path) -> Path:
    """Return the predictions `HOOKED`, which have been graded once in the lake."""
    path = predictions(tmp_path, HOOKED)
    await finished.copy_of(
        "hooked", lambda lake: grade(path, "foreign", environment="host", lake=lake), lake_path
    )
    return path


@pytest.fixture
async def audited(finished: Finished, lake_path: str, tmp_path: Path) -> Path:
    """Return predictions with an unstable and a stable patch, which have been graded twice in the
    lake."""
    assert FIRST.patch != UNSTABLE
    path = predictions(tmp_path, {FIRST.instance_id: UNSTABLE, SECOND.instance_id: SECOND.patch})

    async def twice(lake: str) -> None:
        outcomes = await grade(path, "foreign", environment="host", lake=lake, audit=True)
        assert outcomes[FIRST.instance_id] == "resolved"

    await finished.copy_of("audited", twice, lake_path)
    return path


@pytest.mark.usefixtures("graded")
async def test_the_audited_verdict_is_recorded_beside_the_official_one(lake_path: str) -> None:
    """A repair is resolved in both verdicts. A hook that passes failures is resolved only
    officially."""
    rows = evaluations(lake_path)
    assert [(row["outcome"], row["resolved"], row["gradings"]) for row in rows.values()] == [
        ("resolved", True, 1)
    ] * 2
    assert rows[FIRST.instance_id]["audited_verdict"] == "resolved"
    assert rows[FIRST.instance_id]["audit_reasons"] == []
    assert rows[SECOND.instance_id]["audited_verdict"] == "suspect"
    assert rows[SECOND.instance_id]["audit_reasons"] == ["test_configuration: conftest.py is added"]
    with closing(open_marts(Path(lake_path), "foreign")) as connection:
        found = connection.sql(
            "select instance_id, resolved, audited_verdict, audit_reasons "
            "from marts.counted_evaluations where is_suspect"
        ).fetchall()
    reasons = ["test_configuration: conftest.py is added"]
    assert found == [(SECOND.instance_id, True, "suspect", reasons)]


@pytest.mark.full
async def test_a_second_grading_that_differs_is_flaky(audited: Path, lake_path: str) -> None:
    """If a second grading differs, the first verdict stays and is suspect. Another request grades
    nothing."""
    rows = evaluations(lake_path)
    assert rows[FIRST.instance_id]["outcome"] == "resolved"
    assert rows[FIRST.instance_id]["audited_verdict"] == "suspect"
    assert rows[FIRST.instance_id]["audit_reasons"] == [
        "flaky: resolved in the first grading, unresolved in another"
    ]
    assert rows[SECOND.instance_id]["audited_verdict"] == "resolved"
    assert {row["gradings"] for row in rows.values()} == {2}
    await grade(audited, "foreign", environment="host", lake=lake_path, audit=True)
    assert evaluations(lake_path) == rows
