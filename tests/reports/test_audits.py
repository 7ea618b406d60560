"""The SQL files and the messages of failed audits. Cases test the findings of each audit."""

from pathlib import Path

import pytest

from reports.build import build
from reports.relations import AUDIT_EXAMPLES, MARTS, SQL, STAGING
from tests.reports.lake_fixture import LakeBuilder

OF_QUESTIONS = sorted(SQL.parent.glob("questions/*/*.sql"))


def test_a_failed_audit_has_its_meaning_and_examples(lake: LakeBuilder) -> None:
    """A failed audit states its meaning, the number of rows and a few examples."""
    lake.declare(["a"], ["i1"])
    lake.cell("a", "i1")
    assert build(lake.root, "trial").audits == ()
    for n in range(AUDIT_EXAMPLES + 1):
        lake.attempt("a", f"elsewhere-{n}")
    (failure,) = build(lake.root, "trial").audits
    assert (failure.name, failure.rows) == ("undeclared_cell", AUDIT_EXAMPLES + 1)
    assert failure.meaning.endswith(".")
    assert len(failure.examples) == AUDIT_EXAMPLES
    assert "attempt_id=" in failure.examples[0]


@pytest.mark.parametrize("path", [*SQL.rglob("*.sql"), *OF_QUESTIONS], ids=lambda path: path.stem)
def test_sql_files_follow_the_house_form(path: Path) -> None:
    """A SQL file begins with its grain or claim, ends with `final` and has at most 70 lines."""
    text = path.read_text(encoding="utf-8")
    assert text.startswith(("-- Grain: ", "-- Must be empty: "))
    if path.parent.name == "audits":  # the report shows the first line
        assert text.partition("\n")[0].endswith(".")
    assert "final as (" in text
    assert "select * from final" in text
    assert len(text.splitlines()) <= 70


def test_every_sql_file_is_used() -> None:
    """The lists in `reports.relations` name all files of staging, marts and questions."""
    assert {path.stem for path in (SQL / "staging").glob("*.sql")} == set(STAGING)
    marts = [*(SQL / "marts").glob("*.sql"), *OF_QUESTIONS]
    assert sorted(path.stem for path in marts) == sorted(MARTS)
