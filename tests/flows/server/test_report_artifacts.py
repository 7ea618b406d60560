"""The artifacts of a report: their keys, the link, and the order of the cells."""

import re
from functools import partial
from http.server import HTTPServer, SimpleHTTPRequestHandler
from pathlib import Path
from threading import Thread

import httpx
import pytest

from flows.report import SERVED, SHOWN_CELLS, most_telling, page_url
from flows.server.artifacts import artifact_key
from flows.storage import report_files
from flows.storage.lake import Lake
from reports.types import ReportCell, State

CELL = ReportCell(
    arm="able",
    instance_id="i",
    repeat=0,
    state="resolved",
    attempt_id="a",
    cost_usd=1.0,
    is_cost_complete=True,
    model_calls=1,
    outcome="submitted",
    detail=None,
    reason=None,
    is_suspect=False,
    audit_reasons=(),
    failure=None,
)


def cell(state: State, cost_usd: float | None = 1.0, *, is_suspect: bool = False) -> ReportCell:
    return CELL._replace(state=state, cost_usd=cost_usd, is_suspect=is_suspect)


def test_broken_cells_come_first_and_missing_ones_last() -> None:
    """Broken cells come first, then stopped and suspect ones, then the rest by cost. Cells that
    were not begun come last."""
    wanted = [
        cell("infrastructure"),
        cell("stopped"),
        cell("resolved", 0.1, is_suspect=True),
        cell("unresolved", 3.0),
        cell("resolved", 2.0),
        cell("no_patch", None),
        cell("missing", None),
    ]
    assert most_telling(reversed(wanted)) == wanted
    shown = most_telling([*[CELL] * 10_000, cell("infrastructure")])
    assert (len(shown), shown[0].state) == (SHOWN_CELLS, "infrastructure")


def test_experiments_of_two_lakes_have_separate_artifacts() -> None:
    """The key contains the lake and the whole name, which a key cannot spell."""
    keys = {
        artifact_key("report", name, lake)
        for name in ("a-b", "a.b", "a_b")
        for lake in ("one", "other")
    }
    assert len(keys) == 6
    assert artifact_key("report", "a.b", "one") == artifact_key("report", "a.b", "one")
    assert all(re.fullmatch(r"report-a-b-[0-9a-f]{8}", key) for key in keys)


def test_the_link_to_a_page_is_one_that_browsers_follow(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The page is linked where it is served, as by Python's own server, and nowhere else."""
    monkeypatch.delenv(SERVED, raising=False)
    assert page_url("trial 2") is None
    page = report_files.page_path(Lake.existing(tmp_path), "trial 2")
    page.parent.mkdir(parents=True)
    page.write_text("the report")
    handler = partial(SimpleHTTPRequestHandler, directory=str(tmp_path / "reports"))
    with HTTPServer(("127.0.0.1", 0), handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setenv(SERVED, f"http://127.0.0.1:{server.server_port}/")
        link = page_url("trial 2")
        assert link is not None
        assert httpx.get(link).text == "the report"
        server.shutdown()
