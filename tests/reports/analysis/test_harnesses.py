"""Arms as harnesses × models."""

import json
from contextlib import closing
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import kendalltau

from reports.build import build
from reports.questions.harnesses.section import HarnessGrid, read_grid
from reports.relations import open_marts
from reports.rendering import markdown, page
from reports.statistics.ranks import kendall_tau
from tests.reports.lake_fixture import LakeBuilder

IDS = [f"i{number}" for number in range(8)]


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=2, max_size=9))
def test_tau_is_that_of_scipy(ratings: list[tuple[int, int]]) -> None:
    """tau-b equals scipy's, ties included. Without any difference there is none."""
    first, second = zip(*ratings, strict=True)
    expected = kendalltau(first, second).statistic
    found = kendall_tau(first, second)
    assert found == pytest.approx(expected) if found is not None else expected != expected


def declared(*arms: tuple[str, str, dict[str, Any], str]) -> str:
    """Return the declaration of arms: name, agent, options and model."""
    content = [
        {"name": name, "agent": agent, "options": options, "model": {"name": model}}
        for name, agent, options, model in arms
    ]
    return json.dumps({"arms": content})


def run(lake: LakeBuilder, resolved: dict[str, int], *arms: tuple[str, str, Any, str]) -> None:
    """Declare arms of which each resolves the first so many of eight instances."""
    for order, (name, agent, _, model) in enumerate(arms):
        columns = {"agent": agent, "model": model, "arm_order": order}
        lake.declare([name], IDS, declaration=declared(*arms), **columns)
    lake.fill(resolved, IDS)


def grid_of(lake: LakeBuilder) -> HarnessGrid:
    """Return the arms of the trial by harness and model."""
    with closing(open_marts(lake.root, "trial")) as connection:
        arms = connection.execute("select arm from marts.arms order by position").fetchall()
        return read_grid(connection, [arm for (arm,) in arms])


LEAN, FULL = {"profile": {"preset": "lean"}}, {"profile": {"preset": "full"}}
ARMS = (
    ("mini-s", "mini", {}, "small"),
    ("lean-s", "durable", LEAN, "small"),
    ("full-s", "durable", FULL, "small"),
    ("codex-s", "command", {"recipe": "codex"}, "small"),
    ("mini-l", "mini", {}, "large"),
    ("lean-l", "durable", LEAN, "large"),
    ("codex-l", "command", {"recipe": {"name": "codex", "run": "x"}}, "large"),
)
RESOLVED = {
    "mini-s": 2, "lean-s": 6, "full-s": 8, "codex-s": 1, "mini-l": 5, "lean-l": 4, "codex-l": 1,
}  # fmt: skip


def test_a_harness_is_what_is_declared_besides_the_model(lake: LakeBuilder) -> None:
    """Arms that differ only in name and model are of one harness; other options are another."""
    run(lake, RESOLVED, *ARMS)
    grid = grid_of(lake)
    assert grid.models == ("small", "large")
    assert grid.harnesses == (
        "mini", "durable (lean-s)", "durable (full-s)", "codex (codex-s)", "codex (codex-l)",
    )  # fmt: skip
    assert grid.arms["mini", "large"] == "mini-l"
    assert grid.arms["durable (full-s)", "small"] == "full-s"


def test_rankings_and_interactions_are_over_what_both_models_ran(lake: LakeBuilder) -> None:
    """mini against lean is −4 of 8 with the small model and +1 with the large one."""
    run(lake, RESOLVED, *ARMS)
    report = build(lake.root, "trial")
    section = report.section("grid")
    assert section is not None
    _, agreements, interactions = section.tables
    assert agreements.rows == (("small", "large", "2", "–"),)
    [interaction] = interactions.rows
    assert interaction[:4] == ("mini", "durable (lean-s)", "small", "large")
    assert (interaction[4], interaction[6]) == ("−62.5", "8 instances")
    assert interaction[5].startswith("−")
    for shown in (page.render(report), markdown.render(report)):
        assert "Harnesses by model" in shown
        assert "−62.5" in shown


def test_an_import_has_the_harnesses_that_it_names(lake: LakeBuilder) -> None:
    """The declaration of an import has the names of its arms only; agent and model are columns."""
    arms = [(f"{harness}-{model}", harness, model) for harness in "ab" for model in "xy"]
    declaration = json.dumps({"arms": [name for name, _, _ in arms]})
    for order, (name, harness, model) in enumerate(arms):
        columns = {"agent": harness, "model": model, "arm_order": order}
        lake.declare([name], IDS, declaration=declaration, **columns)
        lake.cell(name, IDS[0])
    grid = grid_of(lake)
    assert (grid.harnesses, grid.models) == (("a", "b"), ("x", "y"))
    assert grid.arms["b", "x"] == "b-x"
