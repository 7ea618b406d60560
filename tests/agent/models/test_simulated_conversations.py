"""Whole conversations with the simulated model are those of earlier releases, in every role.

An attempt of an earlier release is repeated with the same replies. A digest stands for all
calls of all conversations of a role.
"""

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from agent.errors import ModelError
from agent.models.protocol import ModelRequest
from tests.agent.models.patch_cases import CASES
from tests.agent.models.role_talk import ANSWERS, TOOLS, opening, request, talk
from tests.agent.models.simulations import complete, simulated
from tests.agent.models.test_simulated import commands, model
from tests.agent.models.test_simulated_solver import REGRESSION, Working, rejection

X = "--- a/pkg/x.py\n+++ b/pkg/x.py\n@@ -40 +40 @@\n-a = 1\n+a = 2\n"
Y = X.replace("pkg/x.py", "pkg/y.py")
BOTH = X + Y
WIDE = X.replace("@@ -40 +40 @@\n-a = 1\n+a = 2", "@@ -39,3 +39,3 @@\n b\n-a = 1\r\n+a = 2\r\n c")
HOOK = "--- /dev/null\n+++ b/conftest.py\n@@ -0,0 +1 @@\n+import pytest\n"
MODE = "diff --git a/run b/run\nold mode 100644\nnew mode 100755\n"
ODD = "--- a/ä.py\n+++ b/ä.py\n@@ -1 +1 @@\n-a = 'ä'\n+a = 'ö'\n"
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
FAULTS = {
    "skill": 0.5,
    "malformed": 0.3,
    "reviewer_accuracy": 0.5,
    "reviewer_catches": 0.5,
    "adjudicator_accuracy": 0.5,
    "cheating": 0.3,
    "insight": 0.5,
    "prose": 0.2,
    "conflict_claims": 0.3,
    "wrong_anchors": 0.3,
    "overspecified_anchors": 0.3,
    "flaky_anchors": 0.3,
    "asks_for_tests": 0.3,
    "correlation": 0.5,
    "parallel_calls": 0.5,
}
NOT_HERE = {"malformed": 0.0, "prose": 0.0, "flaky_anchors": 0.0}
"""What `Working` does not read, and what runs in another way each time."""
LAST = {"title": "Change pkg/y.py", "status": "done", "review_issues": []}
LATER = {"context": "seen", "completed_steps": ["a"]}
FILES = [f"test/test_{name}.py" for name in "abcyx"]
BRIEF = {"anchor_path": NEW_TEST["path"], "regression_tests": ["tests/test_a.py"]}
CHECKS = [{"failures": [f"{NEW_TEST['path']} fails"], "output": ""}]
SITUATIONS: list[dict[str, Any]] = [
    {},
    {"task": "# Crash on start\n\n```facts\n{}\n```"},
    {"task": "Support YAML\n\nPlease.", "test_files": FILES, "questions": ["Where?"]},
    {"brief": BRIEF, "step": {**STEP, "targets": ["pkg/y.py"]}},
    {"brief": None, "test_files": ["test/unit/test_a.py", "test/unit/test_b.py", "test/c.py"]},
    *({"diff": diff} for diff in (X, WIDE, BOTH, BOTH + HOOK)),
    {"diff": BOTH + HOOK.replace("conftest.py", NEW_TEST["path"])},
    {"context": "seen", "backlog": ["Change pkg/y.py", "Change pkg/x.py"]},
    {"context": "seen", "backlog": [], "last_step": LAST, "completed_steps": ["Change pkg/y.py"]},
    {
        "context": "seen",
        "backlog": ["pkg/y.py: wrong", "Change pkg/x.py"],
        "last_step": {**LAST, "review_issues": ["pkg/y.py: wrong"]},
    },
    {"context": "seen", "backlog": ["z"], "last_step": {**LAST, "status": "blocked"}},
    *({**LATER, "backlog": [f"{OLD_TEST} fails"], "diff": diff} for diff in (X, BOTH, None)),
    *({"diff": diff, "new_test": NEW_TEST, "checks": CHECKS} for diff in (X, BOTH)),
    *(
        {
            "diff": diff,
            "new_test": NEW_TEST,
            "checks": [{"failures": [f"{OLD_TEST} fails"], "output": ""}],
            "failing_existing_tests": [OLD_TEST],
        }
        for diff in (X, BOTH)
    ),
]
PATCHES = (BOTH, X, BOTH + X.replace("x.py", "x.md"), MODE, ODD)


def digest(said: Any) -> str:
    return hashlib.sha256(json.dumps(said, default=vars).encode()).hexdigest()[:16]


def talk_about_everything(role: str) -> str:
    """Hold conversations in every situation, with and without faults and native tools."""
    said = []
    for number, facts in enumerate(SITUATIONS * 3):
        patch = PATCHES[number % len(PATCHES)] if number >= len(SITUATIONS) else BOTH
        faults = FAULTS if number >= len(SITUATIONS) else {}
        subject = simulated(patch, seed=number % 7, **faults)
        where = {"scope": f"step-{number % 5}/candidate-{number % 3}", "number": number}
        asked = {**FACTS, **facts, "candidate": number % 3}
        first = complete(subject, request(role, asked, **where)).message
        with_tools = bool(number % 4)
        calls = talk(subject, role, asked, native=with_tools, **where)
        said.append([first, calls])
    return digest(said)


def repair_everything(folder: Path) -> str:
    """Work as the solver in a repository, with messages that reject its answers in every way."""
    said = []
    for number in range(12):
        faults = FAULTS | NOT_HERE if number % 3 else {}
        extra = {"exploration": 3} if number % 2 else {}
        work = Working(CASES[number % 2], folder / str(number), seed=number, **faults, **extra)
        earlier = {"path": "tests/test_earlier.py", "content": "def test(): ...\n"}
        plan = {"cause": "", "approach": ""}
        facts = {"earlier_test": earlier, "plan": plan} if number % 4 == 1 else None
        answer = work.until_answer(facts=facts)
        for told in (
            "The checks pass so far. not done yet: all. Do what remains, and answer again.",
            "Failed:\n- No test was added to the change.",
            rejection(answer),
            rejection(answer, REGRESSION),
            f"Failed:\n{REGRESSION}",
            "Failed:\n- the test does not fail every time without the change",
        ):
            answer = work.until_answer(told, facts=facts)
        said.append(work.replies)
    return digest(said)


def type_everything() -> str:
    """Return what the model types as mini-swe-agent's, by seed, scope and setting."""
    said = []
    for number in range(60):
        tests = {"skill": 0.0, "mini_tests": 0.8, "mini_notices": 0.5, "exploration": number % 4}
        faults = tests if number % 2 else {"skill": 0.5, "correlation": (number % 3) / 2}
        said.append(commands(model(seed=number, **faults), f"try-{number % 5}"))
    return digest(said)


DIGESTS = {
    "solver": "100d119722131ab2",
    "adjudicator": "7c96bc621390ac5b",
    "scout": "b4aabb9d3b8361b4",
    "contract": "5f540913e65e1f33",
    "gatherer": "19004ea92cee3e71",
    "brief": "10578501a5d91c79",
    "anchor": "bf1e2b6e76796ae3",
    "planner": "daf6459b495f0020",
    "implementer": "c8ab713162754c03",
    "step_reviewer": "6540a527e0272eb0",
    "final_reviewer": "f2af0bfc3531411d",
    "repairs": "569aab0c5f6a4bed",
    "commands": "5c67cdcf503f6386",
}


@pytest.mark.parametrize("role", ANSWERS)
def test_conversations_never_change(role: str) -> None:
    """Mistakes, malformed replies and answers are the same in each role and situation."""
    assert talk_about_everything(role) == DIGESTS[role]


def test_repairs_never_change(tmp_path: Path) -> None:
    """The solver treats each rejection as before."""
    assert repair_everything(tmp_path) == DIGESTS["repairs"]


def test_commands_never_change() -> None:
    """Exploration, tests, mistakes and their discovery are as before."""
    assert type_everything() == DIGESTS["commands"]


def test_replies_do_not_depend_on_the_order_of_requests() -> None:
    """A reply is a function of its conversation and of seeds, and costs its reservation."""
    asked = [request("planner", FACTS, scope=f"step-{n % 5}", number=n) for n in range(20)]
    replies = [complete(simulated(BOTH, **FAULTS), each).message for each in asked]
    one = simulated(BOTH, **FAULTS)
    assert [complete(one, each).message for each in reversed(asked)] == replies[::-1]
    assert one.ceiling_usd(asked[0]) == complete(one, asked[0]).usage.cost_usd


def test_a_request_that_cannot_be_answered_is_an_error() -> None:
    """A role that does not exist and a request without facts end the attempt."""
    with pytest.raises(ModelError, match="no role 'poet'") as caught:
        complete(simulated(X), request("poet", FACTS))
    assert not caught.value.retryable
    with pytest.raises(ModelError, match="carries no facts"):
        complete(simulated(X), ModelRequest(opening({}), TOOLS, role="planner"))
