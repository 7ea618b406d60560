"""The simulated model in the durable arm's roles: its answers, its mistakes and their inputs."""

import json
from pathlib import Path
from typing import Any

import pytest

from agent.errors import ModelError
from agent.models.protocol import ModelRequest
from agent.models.simulated.reference import Draws, damage
from agent.types import Task
from eval.instances import load
from tests.agent.models.patch_cases import KINDS, Case
from tests.agent.models.role_talk import ANSWERS, TOOLS, Call, opening, request, talk
from tests.agent.models.simulations import Tree, complete, simulated
from tests.agent.models.test_simulated_conversations import FACTS, X


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


def test_replies_are_json() -> None:
    """Patches in any encoding survive the conversion to JSON for the journal."""
    patch = "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+\udce4\n"
    facts = {"step": {"targets": ["x"]}}
    arguments = talk(simulated(patch), "implementer", facts).calls_of("apply_patch")[0]
    assert json.loads(json.dumps(arguments)) == {"patch": patch}
