"""Tables by order, by date and of budget stops, on the page and in Markdown."""

from datetime import date
from pathlib import Path

import pytest

from reports.build import build
from reports.errors import ReportError
from reports.rendering import markdown, page
from tests.reports.lake_fixture import LakeBuilder


def test_a_cutoff_date_splits_the_instances_of_its_model(tmp_path: Path) -> None:
    """Instances until the date and after it have rows of their own; undated ones have none."""
    lake = LakeBuilder(tmp_path)
    lake.declare(["a"], ["i", "j", "k", "l"], model="m/new")
    dates = {"i": "2024-12-31", "j": "2025-01-01T00:00:00Z", "k": "2025-01-02 08:00", "l": None}
    for instance, day in dates.items():
        outcome = "unresolved" if instance == "k" else "resolved"
        lake.cell("a", instance, outcome, instance_created_at=day)
    report = build(tmp_path, "trial", cutoffs={"m/new": date(2025, 1, 1)})
    for text in (markdown.render(report), page.render(report)):
        assert "Results by the cut-off date of the model" in text
    text = markdown.render(report)
    assert "| a | m/new | until 2025-01-01 | 2 | 2 of 2 | 100.0 % | 34.2 % to 100.0 % |" in text
    assert "| a | m/new | after 2025-01-01 | 1 | 0 of 1 | 0.0 % | 0.0 % to 79.3 % |" in text
    assert build(tmp_path, "trial").section("strata") is None
    with pytest.raises(ReportError, match="no arm has the model 'm/old'; the models are m/new"):
        build(tmp_path, "trial", cutoffs={"m/old": date(2025, 1, 1)})
