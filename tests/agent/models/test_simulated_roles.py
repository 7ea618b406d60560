"""The simulated model in the durable arm's roles: its answers and their inputs."""

import json
from pathlib import Path
from typing import Any

import pytest

from agent.errors import ModelError
from agent.models.protocol import ModelRequest
from agent.types import Task
from eval.instances import load
from eval.types import Instance
from tests.agent.models.patch_cases import CASES, Case
from tests.agent.models.role_talk import ANSWERS, TOOLS, called, opening, request, talk
from tests.agent.models.simulations import Tree, complete, simulated

pytestmark = pytest.mark.sampled(5)

X = "--- a/pkg/x.py\n+++ b/pkg/x.py\n@@ -40 +40 @@\n-a = 1\n+a = 2\n"
Y = X.replace("pkg/x.py", "pkg/y.py")
BOTH = X + Y
STEP = {"title": "Change pkg/x.py", "targets": ["pkg/x.py"], "tests": []}
FACTS: dict[str, Any] = {"task": "It is broken.", "step": STEP, "diff": ""}


@pytest.fixture(scope="module")
def tasks() -> list[Task]:
    return [_task(instance) for instance in load("bundled")]


def _task(instance: Instance) -> Task:
    statement, base_commit = instance.problem_statement, instance.base_commit
    return Task(instance.instance_id, statement, base_commit, instance.patch)


@pytest.mark.parametrize("native", [True, False], ids=["tools", "text"])
@pytest.mark.parametrize("role", ANSWERS)
def test_every_answer_is_of_its_class(role: str, native: bool, tasks: list[Task]) -> None:
    """Every answer is valid for every bundled task and several seeds, despite malformed replies."""
    malformed = 0
    for task in tasks:
        for seed in range(4):
            options = {"skill": 0.5, "reviewer_accuracy": 0.5, "cheating": 0.2}
            model = simulated(
                task.reference_patch, name=task.id, seed=seed, malformed=0.3 * (seed % 2), **options
            )
            given = {**FACTS, "task": task.statement}
            malformed += talk(model, role, given, native=native).malformed
    assert malformed > 0


@pytest.mark.parametrize("native", [True, False], ids=["tools", "text"])
def test_malformed_replies_are_of_both_kinds_and_have_the_configured_frequency(
    native: bool,
) -> None:
    """Malformed replies have no call or a broken one, and their share is the configured one."""
    model = simulated(X, malformed=0.4)
    replies = [
        complete(
            model,
            ModelRequest(opening(FACTS), TOOLS * native, number=n, role="contract", facts=FACTS),
        )
        for n in range(400)
    ]
    wrong = [reply.message for reply in replies if called(reply.message) is None]
    assert len(wrong) / 400 == pytest.approx(0.4, abs=0.08)
    broken = [m for m in wrong if m.get("tool_calls") or "```" in m["content"]]
    assert 0.3 < len(broken) / len(wrong) < 0.7


def test_malformed_replies_do_not_change_the_work() -> None:
    """After an error message the model continues where it was."""
    for seed in range(10):
        clean = talk(simulated(X, seed=seed), "implementer", FACTS)
        shaky = talk(simulated(X, seed=seed, malformed=0.5), "implementer", FACTS)
        assert shaky.calls == clean.calls


@pytest.mark.parametrize("role", ANSWERS)
def test_the_same_question_gets_the_same_answer(role: str) -> None:
    """A reply does not depend on earlier requests or on the copy of the model."""
    options = {"skill": 0.5, "malformed": 0.3, "reviewer_accuracy": 0.5, "cheating": 0.3}
    questions = [
        request(role, FACTS, scope=f"step-{n % 5}/candidate-{n % 3}", number=n) for n in range(15)
    ]
    model = simulated(BOTH, **options)
    forwards = [complete(model, question) for question in questions]
    backwards = [complete(model, question) for question in reversed(questions)]
    assert forwards == backwards[::-1]
    assert forwards == [complete(simulated(BOTH, **options), question) for question in questions]


def test_a_reply_costs_its_reservation() -> None:
    """The reservation for a call equals its price."""
    model = simulated(X)
    question = request("planner", FACTS)
    assert model.ceiling_usd(question) == complete(model, question).usage.cost_usd


def test_an_unknown_role_is_an_error() -> None:
    """An unknown role cannot be answered, so the error is not retryable."""
    with pytest.raises(ModelError, match="no role 'poet'") as caught:
        complete(simulated(X), request("poet", FACTS))
    assert not caught.value.retryable


def test_a_conversation_without_facts_is_an_error() -> None:
    """The model reads only the facts, so a request without them is an error."""
    messages = [{"role": "user", "content": "Plan something."}]
    with pytest.raises(ModelError, match="carries no facts"):
        complete(simulated(X), ModelRequest(messages, TOOLS, role="planner"))


def test_a_fence_inside_the_facts_does_no_harm() -> None:
    """A task may contain a block in the format of the facts."""
    statement = "# Broken\n\n```facts\n{}\n```\n"
    answer = talk(simulated(X), "contract", {**FACTS, "task": statement}).answer
    assert answer["goal"] == "Broken"


@pytest.mark.parametrize(
    ("statement", "kind"),
    [("# Crash on start\n\nIt dies.", "bugfix"), ("Support YAML\n\nPlease.", "feature")],
)
def test_the_contract_follows_the_statement(statement: str, kind: str) -> None:
    """The first line of the statement is the goal and determines the kind of task."""
    answer = talk(simulated(X), "contract", {"task": statement}).answer
    assert (answer["kind"], answer["goal"]) == (kind, statement.splitlines()[0].strip("# "))
    assert 1 <= len(answer["acceptance_criteria"]) <= 2


def test_the_gatherer_points_at_the_hunks() -> None:
    """The gatherer refers to every hunk of an existing file with the lines around it."""
    found = talk(simulated(BOTH), "gatherer", {"questions": ["Where?"]}).answer["references"]
    assert [reference["path"] for reference in found] == ["pkg/x.py", "pkg/y.py"]
    assert all(reference["start"] < 40 < reference["end"] for reference in found)


def test_the_brief_has_a_path_tests_and_separate_steps() -> None:
    """Regression tests named after a changed module come first, and code files share one step."""
    files = [f"test/test_{name}.py" for name in ("a", "b", "c", "y", "x")]
    brief = talk(simulated(BOTH), "brief", {"test_files": files}).answer
    assert brief["regression_tests"] == ["test/test_y.py", "test/test_x.py", "test/test_a.py"]
    assert brief["backlog"] == ["Change pkg/x.py, pkg/y.py"]
    claim = talk(simulated(BOTH), "anchor", {"brief": brief})
    assert claim.answer["path"] == brief["anchor_path"]
    documented = talk(simulated(BOTH + X.replace("x.py", "x.md")), "brief", {"task": ""}).answer
    assert sorted(documented["backlog"]) == ["Change pkg/x.md", "Change pkg/x.py, pkg/y.py"]


def plan(*, number: int = 0, **facts: Any) -> dict[str, Any]:
    """Return a planner's turn after it has seen the code."""
    context = [{"path": "pkg/x.py", "start": 1, "end": 2, "why": "", "text": ""}]
    return talk(simulated(BOTH), "planner", {"context": context, **facts}, number=number).answer


def test_the_planner_takes_the_first_line_of_the_backlog() -> None:
    """The planner makes one step for the first line and keeps the rest of the backlog."""
    turn = plan(backlog=["Change pkg/y.py", "Change pkg/x.py"], regression_tests=["t.py"])
    assert turn["next_step"]["targets"] == ["pkg/y.py"]
    assert turn["next_step"]["tests"] == ["t.py"]
    assert (turn["backlog"], turn["done"]) == (["Change pkg/x.py"], False)


def test_the_planner_begins_without_a_backlog() -> None:
    """Without a brief the planner makes one step for the whole change."""
    turn = plan(brief=None, backlog=[], last_step=None, completed_steps=[])
    assert turn["next_step"]["targets"] == ["pkg/x.py", "pkg/y.py"]
    assert turn["backlog"] == []


def test_the_planner_is_done_when_nothing_remains() -> None:
    """The planner is done if the backlog is empty and the last step succeeded."""
    last = {"title": "Change pkg/y.py", "status": "done", "summary": "", "review_issues": []}
    turn = plan(backlog=[], last_step=last, completed_steps=["Change pkg/y.py"])
    assert (turn["done"], turn["next_step"], turn["backlog"]) == (True, None, [])


@pytest.mark.parametrize(
    ("status", "issues"), [("done", ["pkg/y.py: wrong"]), ("replan", []), ("blocked", [])]
)
def test_the_planner_repeats_a_step_that_failed(status: str, issues: list[str]) -> None:
    """The planner repeats a failed step and removes lines about the same file from the backlog."""
    last = {"title": "Change pkg/y.py", "status": status, "review_issues": issues}
    turn = plan(backlog=["pkg/y.py: wrong", "Change pkg/x.py"], last_step=last)
    assert turn["next_step"]["targets"] == ["pkg/y.py"]
    assert turn["backlog"] == ["Change pkg/x.py"]


def test_the_planner_finds_the_wrong_file_for_a_line_that_names_none() -> None:
    """If a backlog line names no file, the planner uses the diff to find the file that is wrong."""
    turn = plan(backlog=["tests/test_a.py fails"], diff=X, completed_steps=["a", "b"])
    assert turn["next_step"]["targets"] == ["pkg/y.py"]
    assert turn["backlog"] == []


def test_the_planner_skips_settled_lines() -> None:
    """A backlog line that names no file needs no step once the whole diff is right."""
    turn = plan(backlog=["tests/test_a.py fails"], diff=BOTH, completed_steps=["a", "b"])
    assert (turn["done"], turn["backlog"]) == (True, [])
    blind = plan(backlog=["tests/test_a.py fails"], completed_steps=["a", "b"])
    assert blind["next_step"]["targets"] == ["pkg/x.py", "pkg/y.py"]


def test_the_planner_sometimes_asks_before_it_has_seen_the_code() -> None:
    """A planner that asks for context keeps its backlog and plans no step in that turn."""
    turns = [talk(simulated(BOTH), "planner", FACTS, number=n).answer for n in range(40)]
    asking = [turn for turn in turns if turn["context_needed"]]
    assert 0 < len(asking) < 40
    assert all(turn["next_step"] is None and len(turn["backlog"]) == 1 for turn in asking)
    assert not any(turn["done"] for turn in turns)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
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
        planned = talk(model, "planner", facts, number=10 * turn).answer
        if planned["done"]:
            break
        backlog, step = planned["backlog"], planned["next_step"]
        if step is None:
            continue
        here = f"step-{turn}"
        given = {"step": step, "diff": tree.diff()}
        talk(model, "implementer", given, scope=here, act=tree.act)
        review = talk(model, "step_reviewer", {**given, "diff": tree.diff()}, scope=here).answer
        last = {"title": step["title"], "status": "done", "review_issues": review["issues"]}
        completed += [] if review["issues"] else [step["title"]]
    assert planned["done"]
    assert tree.diff() == expected
    assert talk(model, "final_reviewer", {"diff": tree.diff()}).answer["verdict"] == "accept"


def test_replies_are_json() -> None:
    """Patches in any encoding survive the conversion to JSON for the journal."""
    patch = "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+\udce4\n"
    given = {"step": {"targets": ["x"]}}
    arguments = talk(simulated(patch), "implementer", given).calls_of("apply_patch")[0]
    assert json.loads(json.dumps(arguments)) == {"patch": patch}


def test_the_scout_reads_and_plans_one_step() -> None:
    """The scout's plan names every file of the change and lists related tests first."""
    said = talk(simulated(BOTH), "scout", {**FACTS, "test_files": ["t/test_a.py", "t/test_y.py"]})
    assert [call.tool for call in said.calls] == ["read", "read", "answer"]
    assert said.answer["related_tests"] == ["t/test_y.py", "t/test_a.py"]
    [step] = said.answer["steps"]
    assert step["targets"] == ["pkg/x.py", "pkg/y.py"]


def test_prose_has_the_configured_frequency() -> None:
    """The configured share of replies is prose without a call."""
    model = simulated(X, prose=0.3)
    replies = [complete(model, request("scout", FACTS, number=n)).message for n in range(300)]
    prose = [message for message in replies if "tool_calls" not in message]
    assert len(prose) / 300 == pytest.approx(0.3, abs=0.08)


def test_several_reads_can_share_a_reply() -> None:
    """Several files can be read in one reply, and each call has its own id."""
    first = complete(simulated(BOTH, parallel_calls=1.0), request("scout", FACTS)).message
    calls = first["tool_calls"]
    assert [json.loads(call["function"]["arguments"])["path"] for call in calls] == [
        "pkg/x.py",
        "pkg/y.py",
    ]
    assert len({call["id"] for call in calls}) == 2
