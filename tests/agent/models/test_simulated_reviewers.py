"""The simulated reviewers: correct verdicts, and how often they give them."""

from pathlib import Path
from typing import Any

import pytest

from agent.models.damage import damage
from agent.models.patches import parse
from agent.models.simulated.reference import Draws
from tests.agent.models.patch_cases import CASES, Case
from tests.agent.models.role_talk import Call, talk
from tests.agent.models.simulations import Tree, simulated

pytestmark = pytest.mark.sampled(3)

X = "--- a/x.py\n+++ b/x.py\n@@ -1 +1 @@\n-a = 1\n+a = 2\n"
Y = X.replace("x.py", "y.py")
BOTH = X + Y
HOOK = "--- /dev/null\n+++ b/conftest.py\n@@ -0,0 +1 @@\n+import pytest\n"
ANCHOR = HOOK.replace("conftest.py", "tests/test_mine.py")


def review(role: str, diff: str, *, model: Any = None, number: int = 0) -> dict[str, Any]:
    facts = {"step": {"targets": ["x.py"]}, "anchor": {"path": "tests/test_mine.py"}, "diff": diff}
    return talk(model or simulated(BOTH), role, facts, number=number).answer


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_reference_change_is_accepted_and_a_damaged_one_is_not(
    case: Case, tmp_path: Path
) -> None:
    """Reviewers judge diffs of any kind correctly in the form that workspaces show."""
    tree = Tree(case, tmp_path / "repo")
    model = simulated(tree.patch)
    right = tree.reference_diff()
    assert talk(model, "final_reviewer", {"diff": right}).answer["verdict"] == "accept"
    for seed in range(6):
        wrong = damage(tree.patch, Draws(str(seed)).rng("damage"))
        tree.act(Call("apply_patch", {"patch": wrong}))
        said = talk(model, "final_reviewer", {"diff": tree.diff()}).answer
        assert (said["verdict"], bool(said["issues"])) == ("revise", True)
        tree.reset()


def test_an_empty_change_is_not_accepted() -> None:
    """An empty diff is rejected."""
    assert review("step_reviewer", "")["verdict"] == "revise"


def test_a_step_is_judged_by_its_targets_and_the_whole_by_everything() -> None:
    """Work of later steps is not required of a step, but it is required at the end."""
    assert review("step_reviewer", X)["verdict"] == "accept"
    final = review("final_reviewer", X)
    assert final["verdict"] == "revise"
    assert [issue.split(":")[0] for issue in final["issues"]] == ["y.py"]
    assert review("final_reviewer", BOTH)["verdict"] == "accept"


@pytest.mark.parametrize("role", ["step_reviewer", "final_reviewer"])
def test_a_hook_is_rejected_and_the_reproduction_test_is_not(role: str) -> None:
    """Changes outside the task are rejected, except the reproduction test of the arm."""
    hooked = review(role, BOTH + HOOK)
    assert (hooked["verdict"], len(hooked["issues"])) == ("revise", 1)
    assert review(role, BOTH + ANCHOR)["verdict"] == "accept"


def test_context_and_line_ends_do_not_matter() -> None:
    """Only added and removed lines matter, not their context or line ends."""
    wide = "--- a/x.py\n+++ b/x.py\n@@ -1,3 +1,3 @@\n b\n-a = 1\r\n+a = 2\r\n c\n"
    assert len(parse(wide)[0].hunks[0].lines) == 4
    assert review("step_reviewer", wide)["verdict"] == "accept"


@pytest.mark.parametrize("diff", [BOTH, X], ids=["right", "wrong"])
def test_accuracy_is_the_share_of_true_verdicts(diff: str) -> None:
    """The accuracy holds for right and wrong changes, and a rejection always has issues."""
    model = simulated(BOTH, reviewer_accuracy=0.8)
    truth = "accept" if diff == BOTH else "revise"
    said = [review("final_reviewer", diff, model=model, number=n) for n in range(400)]
    assert sum(one["verdict"] == truth for one in said) / 400 == pytest.approx(0.8, abs=0.06)
    assert all(bool(one["issues"]) == (one["verdict"] == "revise") for one in said)
    assert all(one["reasons"] for one in said)


def test_wrong_changes_can_have_a_rejection_rate_of_their_own() -> None:
    """`reviewer_catches` is the share of wrong changes that are rejected."""
    model = simulated(BOTH, reviewer_catches=0.2)
    said = [review("final_reviewer", X, model=model, number=n)["verdict"] for n in range(400)]
    assert said.count("revise") / 400 == pytest.approx(0.2, abs=0.06)
    assert review("final_reviewer", BOTH, model=model)["verdict"] == "accept"


def test_a_reviewer_can_ask_for_tests() -> None:
    """The configured share of reviews asks for tests, even of correct work."""
    model = simulated(BOTH, asks_for_tests=0.3)
    said = [review("final_reviewer", BOTH, model=model, number=n) for n in range(400)]
    asked = [one for one in said if one["issues"]]
    assert len(asked) / 400 == pytest.approx(0.3, abs=0.07)
    assert all(one["verdict"] == "revise" and "test" in one["issues"][0] for one in asked)


NEW_TEST = {"path": "tests/test_mine.py", "content": ""}
OLD_TEST = "tests/test_old.py::test_it"


def ruling(diff: str, *, number: int = 0, model: Any = None, **facts: Any) -> dict[str, Any]:
    given = {"task": "It is broken.", "diff": diff, "new_test": NEW_TEST, **facts}
    return talk(model or simulated(BOTH), "adjudicator", given, number=number).answer


def checks(*lines: str) -> list[dict[str, Any]]:
    return [{"failures": list(lines), "output": ""}]


NEW_TEST_FAILS = checks("the new test tests/test_mine.py fails with the change")


@pytest.mark.parametrize(
    ("diff", "facts", "cause", "tests"),
    [
        (X, {"checks": NEW_TEST_FAILS}, "code", []),
        (BOTH, {"checks": NEW_TEST_FAILS}, "new_test", []),
        (
            BOTH,
            {"checks": checks(f"{OLD_TEST} fails"), "failing_existing_tests": [OLD_TEST]},
            "existing_test",
            [OLD_TEST],
        ),
    ],
    ids=["wrong code", "wrong new test", "an existing test"],
)
def test_a_ruling_names_the_true_cause(
    diff: str, facts: dict[str, Any], cause: str, tests: list[str]
) -> None:
    """If the code is right, the ruling blames the failing test."""
    said = ruling(diff, **facts)
    assert (said["cause"], said["tests"]) == (cause, tests)
    assert said["reasons"]


def test_accuracy_is_the_share_of_true_rulings() -> None:
    """A wrong ruling names another cause that is consistent with the evidence."""
    model = simulated(BOTH, adjudicator_accuracy=0.7)
    said = [ruling(BOTH, number=n, model=model, checks=NEW_TEST_FAILS) for n in range(400)]
    causes = [one["cause"] for one in said]
    assert causes.count("new_test") / 400 == pytest.approx(0.7, abs=0.07)
    assert set(causes) == {"new_test", "code"}
