"""Every audit has a case that it finds, and finds nothing in a sound lake."""

from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from reports.build import build
from reports.relations import MARTS, SQL, STAGING
from tests.reports.lake_fixture import LakeBuilder

Damage = Callable[[LakeBuilder], object]


def _resolved_without_prediction(lake: LakeBuilder) -> None:
    lake.evaluate("a", "i2", lake.attempt("a", "i2"), "resolved")


def _another_patch(lake: LakeBuilder) -> None:
    attempt = lake.attempt("a", "i2")
    lake.predict("a", "i2", attempt, patch_sha256="q")
    lake.evaluate("a", "i2", attempt, "unresolved")


def _infrastructure_with_prediction(lake: LakeBuilder) -> None:
    lake.predict("a", "i2", lake.attempt("a", "i2", outcome="infrastructure"))


def _rewrite_attempt(lake: LakeBuilder, **columns: object) -> None:
    """An attempt that says something else than its calls."""
    lake.attempt("a", "i2", attempt_id="odd")
    path = max((lake.root / "attempts").rglob("*.parquet"), key=lambda p: p.name)
    row = pq.ParquetFile(path).read().to_pylist()[0]
    path.unlink()
    lake.write("attempts", "a", [{**row, **columns}])


DAMAGE: dict[str, Damage] = {
    "attempt_recorded_twice": lambda lake: [
        lake.attempt("a", "i2", attempt_id="same", model_calls=0, cost_usd=None) for _ in range(2)
    ],
    "call_count_differs": lambda lake: _rewrite_attempt(lake, model_calls=9),
    "call_without_attempt": lambda lake: lake.calls(
        "a",
        {
            "attempt_id": "ghost",
            "instance_id": "i2",
            "repeat": 0,
            "model_calls": 1,
            "unpriced_calls": 0,
            "cost_usd": 0.1,
        },
    ),
    "cost_differs_from_calls": lambda lake: _rewrite_attempt(lake, cost_usd=0.6),
    "evaluation_of_another_patch": _another_patch,
    "evaluation_repeated": lambda lake: lake.evaluate("a", "i1", "first", "resolved", later_s=5),
    "evaluation_without_attempt": lambda lake: lake.evaluate("a", "i2", "ghost", "unresolved"),
    "infrastructure_with_prediction": _infrastructure_with_prediction,
    "prediction_without_attempt": lambda lake: lake.predict("a", "i2", "ghost"),
    "resolved_without_prediction": _resolved_without_prediction,
    "undeclared_cell": lambda lake: lake.attempt("a", "i9"),
    "verdict_contradicts_outcome": lambda lake: lake.evaluate(
        "a", "i1", "first", "unresolved", resolved=True, harness_version="6"
    ),
}
"""Audit → what must be done to a sound lake for it, and for it alone, to find something."""


@pytest.mark.parametrize("name", sorted(DAMAGE))
def test_an_audit_finds_its_case_and_no_other_does(lake: LakeBuilder, name: str) -> None:
    """One damaged lake, one failed audit, with its meaning and an example."""
    lake.declare(["a"], ["i1", "i2"])
    lake.cell("a", "i1", attempt_id="first")
    assert build(lake.root, "trial").audits == ()
    DAMAGE[name](lake)
    (failure,) = build(lake.root, "trial").audits
    assert (failure.name, failure.rows) == (name, 1)
    assert failure.meaning.endswith(".")
    assert "attempt_id=" in failure.examples[0]


def test_every_audit_has_a_case() -> None:
    """A new audit file needs one above."""
    assert {path.stem for path in (SQL / "audits").glob("*.sql")} == set(DAMAGE)


def test_imported_calls_may_lack_but_not_differ(lake: LakeBuilder) -> None:
    """An import of totals has no calls; that is no failure."""
    lake.declare(["a"], ["i1"])
    _rewrite_attempt(lake, environment="imported", instance_id="i1")
    for path in (lake.root / "llm_calls").rglob("*.parquet"):
        path.unlink()
    assert build(lake.root, "trial").audits == ()


@pytest.mark.parametrize("path", sorted(SQL.rglob("*.sql")), ids=lambda path: path.stem)
def test_sql_files_follow_the_house_form(path: Path) -> None:
    """The first comment states grain or claim, the last query is `final`, 70 lines at most."""
    text = path.read_text(encoding="utf-8")
    assert text.startswith(("-- Grain: ", "-- Must be empty: "))
    assert "final as (" in text
    assert "select * from final" in text
    assert len(text.splitlines()) <= 70


def test_every_sql_file_is_used() -> None:
    """The two lists in `relations` name all files."""
    assert {path.stem for path in (SQL / "staging").glob("*.sql")} == set(STAGING)
    assert {path.stem for path in (SQL / "marts").glob("*.sql")} == set(MARTS)
