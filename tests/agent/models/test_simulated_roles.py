"""The simulated model in the durable arm's roles: its answers, its mistakes and their inputs."""

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agent.errors import ModelError
from agent.models.protocol import ModelRequest
from agent.models.simulated.reference import Draws, damage
from agent.types import Task
from eval.instances import load
from tests.agent.models.patch_cases import KINDS, Case
from tests.agent.models.role_talk import ANSWERS, TOOLS, Call, Talk, opening, request, talk
from tests.agent.models.simulations import Tree, complete, simulated

X = "--- a/pkg/x.py\n+++ b/pkg/x.py\n@@ -40 +40 @@\n-a = 1\n+a = 2\n"
Y = X.replace("pkg/x.py", "pkg/y.py")
BOTH = X + Y
HOOK = "--- /dev/null\n+++ b/conftest.py\n@@ -0,0 +1 @@\n+import pytest\n"
NEW_TEST = {"path": "tests/test_mine.py", "content": ""}
OLD_TEST = "tests/test_old.py::test_it"
STEP = {"title": "Change pkg/x.py", "targets": ["pkg/x.py"], "tests": ["tests/test_x.py"]}
FACTS: dict[str, Any] = {
    "task": "It is broken.",
    "step": STEP,
    "diff": "",
    "anchor": {"path": NEW_TEST["path"]},
    "regression_tests": ["tests/test_x.py"],
}


@pytest.fixture(scope="module")
def tasks() -> list[Task]:
    return [
        Task(row.instance_id, row.problem_statement, row.base_commit, row.patch)
        for row in load("bundled")
    ]


@pytest.mark.parametrize("native", [True, False], ids=["tools", "text"])
@pytest.mark.parametrize("role", ANSWERS)
def test_every_answer_is_of_its_class(role: str, native: bool, tasks: list[Task]) -> None:
    """Every answer is valid for every bundled task, despite malformed replies."""
    malformed = 0
    for seed, task in enumerate(tasks):
        options = {"skill": 0.5, "reviewer_accuracy": 0.5, "cheating": 0.2}
        model = simulated(
            task.reference_patch, name=task.id, seed=seed, malformed=0.3 * (seed % 2), **options
        )
        facts = {**FACTS, "task": task.statement}
        malformed += talk(model, role, facts, native=native).malformed
    assert malformed > 0


DIGESTS = {
    "solver": "e2463424041b2310",
    "adjudicator": "482e6d62ed7b92e1",
    "scout": "993708b2a4522183",
    "contract": "c3607702dc38d90a",
    "gatherer": "dca1c87debab7de3",
    "brief": "ac15ff11c0ecc089",
    "anchor": "d3072a50f803c682",
    "planner": "1781d8856e28aef9",
    "implementer": "4651b6f369a19115",
    "step_reviewer": "d9a7fec719fbee6b",
    "final_reviewer": "cf19d97ca0a9de4e",
}


@pytest.mark.parametrize("role", ANSWERS)
def test_replies_never_change(role: str) -> None:
    """The replies of earlier releases never change, so their attempts can be repeated."""
    options = {
        "skill": 0.5,
        "malformed": 0.3,
        "reviewer_accuracy": 0.5,
        "cheating": 0.3,
        "wrong_anchors": 0.3,
        "overspecified_anchors": 0.3,
        "flaky_anchors": 0.3,
        "asks_for_tests": 0.3,
        "correlation": 0.5,
    }
    questions = [
        request(role, FACTS, scope=f"step-{n % 5}/candidate-{n % 3}", number=n) for n in range(40)
    ]
    replies = [complete(simulated(BOTH, **options), question).message for question in questions]
    model = simulated(BOTH, **options)
    assert [complete(model, question).message for question in reversed(questions)] == replies[::-1]
    assert hashlib.sha256(json.dumps(replies).encode()).hexdigest()[:16] == DIGESTS[role]


CONTENT = {"brief": {"anchor_path": "tests/test_mine.py"}}


@pytest.mark.parametrize(
    ("role", "facts", "options", "share", "holds"),
    [
        ("contract", {}, {"malformed": 0.4}, 0.4, lambda talk: talk.malformed > 0),
        ("scout", {}, {"prose": 0.3}, 0.66, lambda talk: talk.malformed > 0),
        ("implementer", {}, {"cheating": 0.25}, 0.25, lambda talk: talk.calls_of("write")),
        ("implementer", {}, {}, 0.6, lambda talk: talk.answer["confidence"] == "high"),
        (
            "implementer",
            {},
            {"skill": 0.5},
            0.5**0.5,
            lambda talk: talk.calls_of("apply_patch")[0]["patch"] == X,
        ),
        (
            "anchor",
            CONTENT,
            {"overspecified_anchors": 0.25, "flaky_anchors": 0.25},
            0.25,
            lambda talk: "_as_stated" in talk.calls_of("write_new")[0]["content"],
        ),
        (
            "anchor",
            CONTENT,
            {"overspecified_anchors": 0.25, "flaky_anchors": 0.25},
            0.25,
            lambda talk: "random" in talk.calls_of("write_new")[0]["content"],
        ),
        (
            "final_reviewer",
            {"diff": BOTH},
            {"reviewer_accuracy": 0.8},
            0.8,
            lambda talk: talk.answer["verdict"] == "accept",
        ),
        (
            "final_reviewer",
            {"diff": X},
            {"reviewer_catches": 0.2},
            0.2,
            lambda talk: talk.answer["verdict"] == "revise",
        ),
        (
            "final_reviewer",
            {"diff": BOTH},
            {"asks_for_tests": 0.3},
            0.3,
            lambda talk: "test" in " ".join(talk.answer["issues"]),
        ),
        (
            "adjudicator",
            {
                "diff": BOTH,
                "new_test": NEW_TEST,
                "checks": [{"failures": [f"{NEW_TEST['path']} fails"], "output": ""}],
            },
            {"adjudicator_accuracy": 0.7},
            0.7,
            lambda talk: talk.answer["cause"] == "new_test",
        ),
    ],
)
def test_chances_are_the_configured_ones(
    role: str,
    facts: dict[str, Any],
    options: dict[str, float],
    share: float,
    holds: Callable[[Talk], object],
) -> None:
    """The share of conversations with a mistake is the declared one."""
    model = simulated(BOTH, **options)
    talks = [talk(model, role, {**FACTS, **facts}, scope=f"s-{n}", number=n) for n in range(120)]
    assert sum(bool(holds(one)) for one in talks) / 120 == pytest.approx(share, abs=0.13)


def test_a_reply_costs_its_reservation() -> None:
    """The reservation for a call equals its price."""
    model = simulated(X)
    question = request("planner", FACTS)
    assert model.ceiling_usd(question) == complete(model, question).usage.cost_usd


def test_a_request_that_cannot_be_answered_is_an_error() -> None:
    """A role that does not exist and a request without facts end the attempt."""
    with pytest.raises(ModelError, match="no role 'poet'") as caught:
        complete(simulated(X), request("poet", FACTS))
    assert not caught.value.retryable
    with pytest.raises(ModelError, match="carries no facts"):
        complete(simulated(X), ModelRequest(opening({}), TOOLS, role="planner"))


@pytest.mark.parametrize(
    ("statement", "kind"),
    [("# Crash on start\n\n```facts\n{}\n```", "bugfix"), ("Support YAML\n\nPlease.", "feature")],
)
def test_the_contract_follows_the_statement(statement: str, kind: str) -> None:
    """The first line of the statement is the goal and determines the kind of task."""
    answer = talk(simulated(X), "contract", {"task": statement}).answer
    assert (answer["kind"], answer["goal"]) == (kind, statement.splitlines()[0].strip("# "))
    assert 1 <= len(answer["acceptance_criteria"]) <= 2


def test_those_who_look_name_the_places_of_the_change() -> None:
    """Gatherer, brief and scout name every file. Tests of a changed module come first."""
    references = talk(simulated(BOTH), "gatherer", {"questions": ["Where?"]}).answer["references"]
    assert [reference["path"] for reference in references] == ["pkg/x.py", "pkg/y.py"]
    assert all(reference["start"] < 40 < reference["end"] for reference in references)
    files = [f"test/test_{name}.py" for name in ("a", "b", "c", "y", "x")]
    brief = talk(simulated(BOTH), "brief", {"test_files": files}).answer
    assert brief["regression_tests"] == ["test/test_y.py", "test/test_x.py", "test/test_a.py"]
    assert brief["backlog"] == ["Change pkg/x.py, pkg/y.py"]
    claim = talk(simulated(BOTH), "anchor", {"brief": brief})
    assert claim.answer["path"] == brief["anchor_path"]
    prose = talk(simulated(BOTH + X.replace("x.py", "x.md")), "brief", {"task": ""}).answer
    assert sorted(prose["backlog"]) == ["Change pkg/x.md", "Change pkg/x.py, pkg/y.py"]
    scout = talk(simulated(BOTH), "scout", {**FACTS, "test_files": files})
    assert scout.answer["related_tests"] == brief["regression_tests"]
    assert scout.answer["steps"][0]["targets"] == ["pkg/x.py", "pkg/y.py"]


LAST = {"title": "Change pkg/y.py", "status": "done", "review_issues": []}
WRONG_LINE = "tests/test_a.py fails"


@pytest.mark.parametrize(
    ("facts", "targets", "backlog"),
    [
        ({"backlog": ["Change pkg/y.py", "Change pkg/x.py"]}, ["pkg/y.py"], ["Change pkg/x.py"]),
        ({"backlog": []}, ["pkg/x.py", "pkg/y.py"], []),
        ({"backlog": [], "last_step": LAST, "completed_steps": ["Change pkg/y.py"]}, None, []),
        (
            {
                "backlog": ["pkg/y.py: wrong", "Change pkg/x.py"],
                "last_step": {**LAST, "review_issues": ["pkg/y.py: wrong"]},
            },
            ["pkg/y.py"],
            ["Change pkg/x.py"],
        ),
        (
            {"backlog": ["Change pkg/x.py"], "last_step": {**LAST, "status": "blocked"}},
            ["pkg/y.py"],
            ["Change pkg/x.py"],
        ),
        ({"backlog": [WRONG_LINE], "diff": X, "completed_steps": ["a"]}, ["pkg/y.py"], []),
        ({"backlog": [WRONG_LINE], "diff": BOTH, "completed_steps": ["a"]}, None, []),
        (
            {"backlog": [WRONG_LINE], "diff": None, "completed_steps": ["a"]},
            ["pkg/x.py", "pkg/y.py"],
            [],
        ),
    ],
)
def test_the_planner_takes_the_next_step(
    facts: dict[str, Any], targets: list[str] | None, backlog: list[str]
) -> None:
    """A failed step is repeated, a settled line is skipped, and a diff shows the wrong file."""
    turn = talk(simulated(BOTH), "planner", {**FACTS, "context": "seen", **facts}).answer
    step = turn["next_step"]
    assert (step["targets"] if step else None) == targets
    assert (turn["backlog"], turn["done"]) == (backlog, targets is None)


def test_the_planner_sometimes_asks_before_it_has_seen_the_code() -> None:
    """A planner that asks for context keeps its backlog and plans no step in that turn."""
    turns = [talk(simulated(BOTH), "planner", FACTS, number=n).answer for n in range(40)]
    asking = [turn for turn in turns if turn["context_needed"]]
    assert 0 < len(asking) < 40
    assert all(turn["next_step"] is None and len(turn["backlog"]) == 1 for turn in asking)


@pytest.mark.parametrize("case", KINDS)
def test_the_roles_together_solve_a_task(case: Case, tmp_path: Path) -> None:
    """With true reviews and a skill of one half, repeated planning ends at the right tree."""
    tree = Tree(case, tmp_path / "repo")
    expected = tree.reference_diff()
    model = simulated(tree.patch, skill=0.5, malformed=0.1)
    backlog: list[str] = []
    completed: list[str] = []
    last: dict[str, Any] | None = None
    for turn in range(60):
        facts = {"backlog": backlog, "completed_steps": completed, "last_step": last}
        plan = talk(model, "planner", facts, number=10 * turn).answer
        if plan["done"]:
            break
        backlog, step = plan["backlog"], plan["next_step"]
        if step is None:
            continue
        scope, facts = f"step-{turn}", {"step": step, "diff": tree.diff()}
        talk(model, "implementer", facts, scope=scope, act=tree.act)
        review = talk(model, "step_reviewer", {**facts, "diff": tree.diff()}, scope=scope).answer
        last = {"title": step["title"], "status": "done", "review_issues": review["issues"]}
        completed += [] if review["issues"] else [step["title"]]
    assert plan["done"]
    assert tree.diff() == expected
    assert talk(model, "final_reviewer", {"diff": tree.diff()}).answer["verdict"] == "accept"
    tree.reset()
    for seed in range(3):
        wrong = damage(tree.patch, Draws(str(seed)).rng("damage"))
        tree.act(Call("apply_patch", {"patch": wrong}))
        review = talk(model, "final_reviewer", {"diff": tree.diff()}).answer
        assert (review["verdict"], bool(review["issues"])) == ("revise", True)
        tree.reset()


WIDE = X.replace(
    "@@ -40 +40 @@\n-a = 1\n+a = 2\n", "@@ -39,3 +39,3 @@\n b\n-a = 1\r\n+a = 2\r\n c\n"
)


@pytest.mark.parametrize(
    ("role", "diff", "issues"),
    [
        ("step_reviewer", "", ["pkg/x.py"]),
        ("step_reviewer", X, []),
        ("step_reviewer", WIDE, []),
        ("final_reviewer", X, ["pkg/y.py"]),
        ("final_reviewer", BOTH, []),
        ("final_reviewer", BOTH + HOOK, ["conftest.py has nothing to do with the task"]),
        ("final_reviewer", BOTH + HOOK.replace("conftest.py", NEW_TEST["path"]), []),
    ],
)
def test_a_review_names_what_is_wrong(role: str, diff: str, issues: list[str]) -> None:
    """A step is judged by its targets. Context, line ends and the arm's own test do not count."""
    review = talk(simulated(BOTH), role, {**FACTS, "diff": diff}).answer
    assert [issue.split(":")[0] for issue in review["issues"]] == issues
    assert review["verdict"] == ("revise" if issues else "accept")
    assert review["reasons"]


@pytest.mark.parametrize(
    ("diff", "failing", "cause"),
    [(X, [OLD_TEST], "code"), (BOTH, [OLD_TEST], "existing_test")],
)
def test_a_ruling_names_the_true_cause(diff: str, failing: list[str], cause: str) -> None:
    """If the code is right, the ruling blames the failing test."""
    checks = [{"failures": [f"{name} fails"], "output": ""} for name in failing]
    facts = {
        "diff": diff,
        "new_test": NEW_TEST,
        "checks": checks,
        "failing_existing_tests": failing,
    }
    ruling = talk(simulated(BOTH), "adjudicator", {**FACTS, **facts}).answer
    assert ruling["cause"] == cause
    assert ruling["tests"] == (failing if cause == "existing_test" else [])


def test_replies_are_json() -> None:
    """Patches in any encoding survive the conversion to JSON for the journal."""
    patch = "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+\udce4\n"
    facts = {"step": {"targets": ["x"]}}
    arguments = talk(simulated(patch), "implementer", facts).calls_of("apply_patch")[0]
    assert json.loads(json.dumps(arguments)) == {"patch": patch}


def test_several_reads_can_share_a_reply() -> None:
    """Several files can be read in one reply, and each call has its own id."""
    first = complete(simulated(BOTH, parallel_calls=1.0), request("scout", FACTS)).message
    calls = first["tool_calls"]
    paths = [json.loads(call["function"]["arguments"])["path"] for call in calls]
    assert paths == ["pkg/x.py", "pkg/y.py"]
    assert len({call["id"] for call in calls}) == 2
