"""A report reads well with 2 and with 123 arms, whose names are as long as published ones."""

import re
import warnings
from io import StringIO

import pytest
from rich.console import Console

from flows.cli import console
from reports.analysis.best import get_named_arms
from reports.build import build
from reports.questions.arms.section import SHOWN_ARMS
from reports.questions.cost.section import NONE_KNOWN
from reports.questions.resolution.lead_figure import draw_lead
from reports.questions.resolution.section import draw_resolution
from reports.rendering import markdown, page
from reports.types import Report
from tests.reports.lake_fixture import LakeBuilder
from tests.reports.many_arms import fill
from tests.reports.rendering.test_page import outline
from tests.reports.shown import section

SIZES = (2, 12, pytest.param(123, marks=pytest.mark.full))

TERMINAL = 80
"""Columns of an ordinary terminal."""


@pytest.fixture(scope="module", params=SIZES)
def report(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Report:
    """Return the report of so many arms, declared from the worst to the best."""
    lake = LakeBuilder(tmp_path_factory.mktemp("lake"))
    fill(lake, request.param, 24, priced=True)
    return build(lake.root, "trial")


@pytest.fixture(scope="module")
def html(report: Report) -> str:
    """Return the page of the report."""
    return page.render(report)


def in_order(text: str, names: list[str]) -> bool:
    """Return True if the first places of the names in a text are in this order."""
    places = [text.index(name) for name in names]
    return places == sorted(places)


def best_first(report: Report) -> list[str]:
    """Return the names of the arms by rate."""
    return [arm.name for arm in sorted(report.arms, key=lambda arm: -arm.rate)]


def test_arms_are_shown_best_first(report: Report, html: str) -> None:
    """The figure and the tables of the page and of the Markdown have the best arm first."""
    names = best_first(report)
    assert names != [arm.name for arm in report.arms]
    figure = draw_resolution(report)
    drawn = re.sub(r"<title.*?</title>", "", figure.svg)
    assert in_order(drawn, names)
    assert in_order(html.partition('<section id="details">')[2], names)
    plain = markdown.render(report).replace("\\_", "_")
    assert in_order(plain.partition("## Arms")[2], names)


def test_long_names_leave_the_whole_width_to_the_plot(report: Report) -> None:
    """The axes of the figure take nearly the whole width, however long the names are."""
    figure = draw_resolution(report)
    width = float(re.search(r'viewBox="0 0 ([\d.]+)', figure.svg)[1])  # type: ignore[index]
    grid = re.findall(r'<g id="resolution-xtick_\d+">.*?<path d="M ([\d.]+)', figure.svg, re.S)
    xs = [float(x) for x in grid]
    assert (max(xs) - min(xs)) / width > 0.7


def test_the_lead_figure_names_the_leading_arms(report: Report) -> None:
    """Names that matter are there whatever the number of arms."""
    (drawn,) = draw_lead(report)
    shown = " ".join(re.findall(r"<text[^>]*>([^<]*)</text>", drawn.svg))
    pair = report.comparisons[0]
    for arm in (pair.baseline, pair.candidate):
        assert arm[:20] in shown


def test_the_page_stays_small_and_whole(report: Report, html: str) -> None:
    """The page is valid, names every arm, and has no table with a column for each of many arms."""
    outline(html)
    assert all(html.count(arm.name) > 3 for arm in report.arms)
    widest = max(row.count("<th") for row in re.findall(r"<thead>.*?</thead>", html))
    assert widest <= 16
    assert max(map(len, re.findall(r'<li class="[a-z]+">.*?</li>', html))) < 1000


def test_nothing_is_wider_than_a_terminal(report: Report, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a terminal of 80 columns, every arm has its whole name, and none is cut."""
    printed = StringIO()
    narrow = Console(file=printed, width=TERMINAL, highlight=False)
    monkeypatch.setattr(console, "out", lambda: narrow)
    [table] = section(report, "arms").get_tables("terminal")
    for shown in console.lay_out(table, TERMINAL):
        narrow.print(shown)
    lines = printed.getvalue().splitlines()
    assert max(map(len, lines)) <= TERMINAL
    names = best_first(report)[:SHOWN_ARMS]
    assert in_order("\n".join(lines), names)
    assert get_named_arms(report) <= {line.strip() for line in lines}
    assert "…" not in printed.getvalue()
    if len(report.arms) > SHOWN_ARMS:
        others = len(report.arms) - len(get_named_arms(report) | {*names})
        assert lines[-1] == f"and {others} more arms, all in the report"


def test_every_instance_has_a_sign_for_every_arm(report: Report, html: str) -> None:
    """With many arms, an instance has one sign for each arm, best first, and their number."""
    strips = re.findall(r"<td(?: class=\"zero\")?>(\d+)</td><td class=\"left\">([●○]+)</td>", html)
    if len(report.arms) <= 6:
        assert strips == []
        return
    assert len(strips) == 24
    for resolved, signs in strips:
        assert len(signs) == len(report.arms)
        assert signs.count("●") == int(resolved)
    best = best_first(report)[0]
    assert sum(signs[0] == "●" for _, signs in strips) == report.arm(best).resolved


@pytest.mark.parametrize("arms", [2, 12])
def test_without_costs_nothing_empty_is_shown(arms: int, lake: LakeBuilder) -> None:
    """Without costs the sections on cost are one line each, and no library warns."""
    fill(lake, arms, 24, priced=False)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        report = build(lake.root, "trial")
        html, text = page.render(report), markdown.render(report)
    cost = html.partition('id="cost">')[2].partition("</section>")[0]
    assert NONE_KNOWN in cost
    assert "<table" not in cost
    assert "<svg" not in cost
    spent = html.partition('id="spending">')[2].partition("</section>")[0]
    assert "No bill and no cost is known" in spent
    assert "<table" not in spent
    drawn = set(re.findall(r'aria-labelledby="([a-z]+)-alt"', html))
    assert drawn == {"resolution"} | ({"pairs"} if arms > 2 else set())
    assert "No bill and no cost is known" in text.partition("## How much was wasted")[2]
