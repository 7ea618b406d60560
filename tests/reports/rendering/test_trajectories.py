"""The trajectory pages that a report links to."""

import json
import re

import pytest

from reports.build import build
from reports.questions.trajectories.pages import render_trajectories
from reports.rendering import page
from tests.reports.lake_fixture import LakeBuilder
from tests.reports.rendering.test_page import outline

MODEL = {
    "kind": "model",
    "request": json.dumps(
        {
            "messages": [
                {"role": "user", "content": "Repair <it>"},
                {"role": "assistant", "content": "said before"},
            ]
        }
    ),
    "result": json.dumps(
        {
            "role": "assistant",
            "content": "I look around.",
            "tool_calls": [
                {"function": {"name": "bash", "arguments": '{"command": "ls -l\\ncat x.py"}'}}
            ],
        }
    ),
    "exit_code": None,
}


@pytest.fixture
def differing(lake: LakeBuilder) -> LakeBuilder:
    """Return a lake in which only `b` resolves i1 and both arms resolve i2."""
    lake.declare(["a", "b"], ["i1", "i2"])
    lake.cell("a", "i1", "unresolved", attempt_id="a-1")
    lake.cell("b", "i1", attempt_id="b-1")
    for arm in ("a", "b"):
        lake.cell(arm, "i2", attempt_id=f"{arm}-2")
    return lake


def test_a_difference_links_to_both_trajectories(differing: LakeBuilder) -> None:
    """Every differing cell links to both trajectories, and only linked trajectories have a page."""
    for arm, instance, attempt in (("a", "i1", "a-1"), ("b", "i1", "b-1"), ("a", "i2", "a-2")):
        differing.steps(arm, instance, attempt, MODEL, {})
    report = build(differing.root, "trial")
    pages = dict(render_trajectories(differing.root, report))
    assert pages.keys() == {"trajectories/a-1.html", "trajectories/b-1.html"}
    links = set(outline(page.render(report)).fetched)
    assert links == {*pages}
    assert "durabench trace a-1" in page.render(report)


def test_an_id_that_could_leave_the_folder_has_no_page(lake: LakeBuilder) -> None:
    """An attempt id that is a path outside the folder has no page."""
    lake.declare(["a", "b"], ["i1"])
    lake.cell("b", "i1", attempt_id="../../x")
    report = build(lake.root, "trial")
    assert report.trajectories == frozenset()
    assert list(render_trajectories(lake.root, report)) == []


def test_a_page_shows_what_was_said_and_done(differing: LakeBuilder) -> None:
    """A trajectory shows messages, tool calls, commands, outputs, costs and the patch, escaped."""
    call = {"attempt_id": "a-1", "instance_id": "i1", "seq": 0}
    differing.steps("a", "i1", "a-1", MODEL, {"exit_code": 2}, {
        "kind": "action",
        "request": '{"action": "read", "path": "x.py"}',
        "result": '["one", "two"]',
        "exit_code": None,
    })  # fmt: skip
    differing.write(
        "llm_calls", "a", [differing.call(**call, cost_usd=None, role="planner")], unit="a-1"
    )
    differing.predict("a", "i1", "a-1", unit="a-1")
    report = build(differing.root, "trial")
    html = dict(render_trajectories(differing.root, report))["trajectories/a-1.html"]
    parsed = outline(html)
    assert not {"script", "link", "img"} & parsed.tags
    assert parsed.fetched == ["../index.html#differences"]
    for shown in (
        "a on i1", "Repair &lt;it&gt;", "I look around.",
        "bash:\n  command:\n    ls -l\n    cat x.py", "planner",
        "50 tokens in (20 cached); 10 out; cost unknown", "exit 2", "path: x.py",
        "diff --git a/x b/x", "durabench trace a-1",
    ):  # fmt: skip
        assert shown in html, shown
    assert "said before" not in html


def test_scopes_are_folded_together_where_they_began(differing: LakeBuilder) -> None:
    """Steps of concurrent scopes do not alternate: those of a scope are in one fold."""
    steps = [
        {"scope": "work", "seq": 0},
        {"scope": "work/spawn-1/work", "seq": 0},
        {"scope": "work/spawn-2/work", "seq": 0},
        {"scope": "work/spawn-1/work", "seq": 1},
    ]
    differing.steps("a", "i1", "a-1", *steps)
    report = build(differing.root, "trial")
    shown = dict(render_trajectories(differing.root, report))["trajectories/a-1.html"]
    folds = re.findall(r"<summary>(work/.*?)</summary>", shown)
    assert folds == ["work/spawn-1 (2 steps)", "work/spawn-2 (1 step)"]
    assert re.findall(r'id="step-(\d)"', shown) == ["1", "2", "3", "4"]
