"""The report as one HTML page."""

import re
from html.parser import HTMLParser

import pytest

from reports.analysis import differences
from reports.build import build
from reports.questions.cells import section as cells
from reports.questions.cells.section import MARKS
from reports.rendering.page import render
from reports.types import STATES
from tests.reports.lake_fixture import LakeBuilder

VOID = {"meta", "input", "br", "link", "img", "hr"}


class Outline(HTMLParser):
    """A parser that checks the nesting of tags and collects ids, tags and fetched addresses."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.fetched: list[str] = []
        self.tags: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.note(tag, attrs)
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.note(tag, attrs)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def note(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        for name, value in attrs:
            if name == "id":
                self.ids.append(value or "")
            if name in {"src", "href", "xlink:href", "action"} and not (value or "").startswith(
                "#"
            ):
                self.fetched.append(value or "")


def outline(html: str) -> Outline:
    """Parse a page and check that every tag is closed."""
    parser = Outline()
    parser.feed(html)
    parser.close()
    assert parser.open == []
    return parser


def test_the_page_is_valid_and_fetches_nothing(two_arms: LakeBuilder) -> None:
    """The page has balanced tags, unique ids, no external address and no script."""
    html = render(build(two_arms.root, "trial"))
    page = outline(html)
    assert page.fetched == []
    assert not {"script", "link", "iframe", "img"} & page.tags
    assert "http" not in html
    assert "@import" not in html
    assert len(page.ids) == len(set(page.ids))
    assert html.lstrip().startswith("<!doctype html>\n<html lang=")
    assert "<title>trial" in html


def test_figures_are_themed_and_described(two_arms: LakeBuilder) -> None:
    """The ten drawings have alternative texts and use only colours of the page's theme."""
    html = render(build(two_arms.root, "trial"))
    drawings = re.findall(r"<svg.*?</svg>", html, flags=re.DOTALL)
    assert len(drawings) == 10
    for drawing in drawings:
        assert re.search(
            r'role="img" aria-labelledby="[a-z-]+-alt"><title id="[a-z-]+-alt">', drawing
        )
        assert "var(--arm-" in drawing
        assert not re.search(r"#[0-9a-f]{6}\b(?!\))", drawing)
    assert ">Arms on the frontier by cost per instance" in drawings[0]
    assert "quick 50.0 % (15.0 % to 85.0 %)" in drawings[1]


def test_a_suspect_verdict_is_marked_with_its_reasons(lake: LakeBuilder) -> None:
    """A suspect verdict is marked with its reasons among the differences and in the grid."""
    lake.declare(["a", "b"], ["i1"])
    lake.cell("a", "i1", "unresolved")
    attempt = lake.attempt("b", "i1")
    lake.predict("b", "i1", attempt)
    reason = "tests_changed: tests/test_x.py deleted"
    lake.evaluate("b", "i1", attempt, "resolved", audited_verdict="suspect", audit_reasons=[reason])
    html = render(build(lake.root, "trial"))
    assert html.count("? suspect") == 2
    assert html.count(reason) == 3
    assert "Suspect verdicts: 1 of 1 resolved cell (b 1)" in html
    assert "without them the difference is 0.0 points" in html


def test_a_huge_experiment_has_a_bounded_page(
    lake: LakeBuilder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Long tables are cut and state how many rows are omitted."""
    monkeypatch.setattr(cells, "GRID_CELLS", 4)
    monkeypatch.setattr(differences, "SHOWN", 1)
    names = [f"i{n}" for n in range(5)]
    lake.declare(["a", "b"], names)
    for name in names:
        lake.cell("b", name)
    html = render(build(lake.root, "trial"))
    assert "Not listed here but counted everywhere else: 3 more rows" in html
    assert "And 4 more that only b resolved" in html
    assert "b alone resolves 5 cells, a alone 0." in html
    # Without steps there is nothing to link to, and no column for it.
    assert "its trajectory" not in html


def test_data_is_escaped(lake: LakeBuilder) -> None:
    """Ids, models, reasons and details are escaped and never become markup."""
    weird = "<script>alert(1)</script>&\"'"
    lake.declare(["a"], [weird, "i2"], model=weird, dataset=weird)
    lake.cell("a", weird)
    lake.attempt("a", "i2", outcome="infrastructure", detail=weird)
    html = render(build(lake.root, "trial"))
    assert "script" not in outline(html).tags
    assert html.count("&lt;script&gt;alert(1)&lt;/script&gt;") >= 4


@pytest.mark.parametrize(
    ("arms", "cells"),
    [(["a"], []), (["a"], [None]), (["a", "b"], [None, 0.0]), (list("abcdefghij"), [0.01, 5.0])],
    ids=["nothing run", "unknown costs", "free", "ten arms"],
)
def test_unusual_experiments_still_draw(
    lake: LakeBuilder, arms: list[str], cells: list[float | None]
) -> None:
    """A page without costs or attempts, or with more arms than colours, can be drawn."""
    lake.declare(arms, ["i1", "i2"])
    for arm in arms:
        for n, cost in enumerate(cells, start=1):
            lake.cell(arm, f"i{n}", cost_usd=cost, unpriced_calls=2 if cost is None else 0)
    outline(render(build(lake.root, "trial")))


def test_every_state_has_its_own_sign() -> None:
    """Every state has its own sign, so that no state is shown by colour alone."""
    assert MARKS.keys() == STATES.keys()
    assert len(set(MARKS.values())) == len(MARKS)
