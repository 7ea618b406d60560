"""The simulated implementer: its changes, its error rate, and its cheating."""

from pathlib import Path
from typing import Any

import pytest

from agent.models.patches import parse
from tests.agent.models.patch_cases import CASES, Case
from tests.agent.models.role_talk import talk
from tests.agent.models.simulations import Tree, simulated

pytestmark = pytest.mark.sampled(5)

ONE = "--- a/x.py\n+++ b/x.py\n@@ -1 +1 @@\n-a = 1\n+a = 2\n"
TWO = ONE + ONE.replace("x.py", "y.py")
ANCHOR = {"path": "tests/test_anchor.py", "output": "1 failed"}
TESTS = ["tests/test_x.py"]


def facts(*targets: str, diff: str = "", **more: Any) -> dict[str, Any]:
    step = {"title": "Change it", "instructions": "Do.", "targets": targets, "tests": TESTS}
    return {"step": step, "anchor": ANCHOR, "regression_tests": TESTS, "diff": diff, **more}


def paths(patch: str) -> list[str]:
    return [path for file in parse(patch) for path in file.paths]


def patches_of(model: Any, scope: str, *targets: str) -> list[str]:
    found = talk(model, "implementer", facts(*targets), scope=scope).calls_of("apply_patch")
    return [str(arguments["patch"]) for arguments in found]


@pytest.mark.parametrize("native", [True, False], ids=["tools", "text"])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_right_step_makes_the_reference_change(case: Case, native: bool, tmp_path: Path) -> None:
    """In either protocol, a right step gives the tree of the reference patch."""
    tree = Tree(case, tmp_path / "repo")
    expected = tree.reference_diff()
    given = facts(*paths(tree.patch))
    talk(simulated(tree.patch), "implementer", given, native=native, act=tree.act)
    assert tree.diff() == expected


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_wrong_step_can_be_made_right(case: Case, tmp_path: Path) -> None:
    """A later try reverts the change of an earlier one before it makes its own."""
    tree = Tree(case, tmp_path / "repo")
    expected = tree.reference_diff()
    targets = paths(tree.patch)
    for seed in range(4):
        wrong = simulated(tree.patch, skill=0.0, seed=seed)
        talk(wrong, "implementer", facts(*targets), act=tree.act)
        assert tree.diff() != expected
        given = facts(*targets, diff=tree.diff())
        talk(simulated(tree.patch), "implementer", given, act=tree.act)
        assert tree.diff() == expected
        tree.reset()


def test_a_cheat_is_reverted_and_the_reproduction_test_is_not(tmp_path: Path) -> None:
    """Unrelated changes are reverted, but the reproduction test of the arm stays."""
    tree = Tree(CASES[0], tmp_path / "repo")
    expected = tree.reference_diff()
    (tree.root / "conftest.py").write_text("import pytest\n")
    (tree.root / "tests").mkdir()
    (tree.root / "tests" / "test_anchor.py").write_text("def test_it(): ...\n")
    given = facts(*paths(tree.patch), diff=tree.diff())
    talk(simulated(tree.patch), "implementer", given, act=tree.act)
    assert not (tree.root / "conftest.py").exists()
    assert (tree.root / "tests" / "test_anchor.py").exists()
    assert expected in tree.diff()


def test_a_step_changes_its_targets_alone() -> None:
    """A step for one file of a patch does not change the others."""
    assert paths(*patches_of(simulated(TWO), "step-1", "y.py")) == ["y.py"]


def test_the_tests_run_before_the_report() -> None:
    """The reproduction test and the regression tests run once, after the change."""
    calls = talk(simulated(ONE), "implementer", facts("x.py")).calls
    assert [call.tool for call in calls] == ["read", "apply_patch", "run_tests", "answer"]
    assert calls[2].arguments == {"paths": [ANCHOR["path"], *TESTS]}


def share_right(skill: float, *targets: str) -> float:
    """Return the share of right steps for these targets, each in a scope of its own."""
    right = simulated(TWO)
    expected = patches_of(right, "", *targets)
    model = simulated(TWO, skill=skill)
    tries = [patches_of(model, f"step-1/candidate-{n}", *targets) for n in range(400)]
    return tries.count(expected) / len(tries)


def test_skill_is_the_share_of_right_tasks_done_in_one_step() -> None:
    """A step that makes the whole change is right with a probability equal to the skill."""
    assert share_right(0.5, "x.py", "y.py") == pytest.approx(0.5, abs=0.08)


def test_a_part_is_right_more_often_than_the_whole() -> None:
    """A step for one of two files is right with probability skill ** (1/2)."""
    assert share_right(0.5, "x.py") == pytest.approx(0.5**0.5, abs=0.08)


def test_draws_differ_by_scope_seed_and_task() -> None:
    """Draws of different candidates, attempts and tasks are independent."""
    by_scope = [patches_of(simulated(ONE, skill=0.5), f"step-{n}", "x.py") for n in range(30)]
    by_seed = [patches_of(simulated(ONE, skill=0.5, seed=n), "", "x.py") for n in range(30)]
    by_task = [patches_of(simulated(ONE, skill=0.5, name=f"t-{n}"), "", "x.py") for n in range(30)]
    right = patches_of(simulated(ONE), "", "x.py")
    lots = [[tried == right for tried in tries] for tries in (by_scope, by_seed, by_task)]
    assert all(set(column) == {True, False} for column in lots)
    assert lots[0] != lots[1] != lots[2] != lots[0]


def share_sure(skill: float) -> float:
    model = simulated(ONE, skill=skill)
    talks = [talk(model, "implementer", facts("x.py"), scope=f"step-{n}") for n in range(400)]
    assert {one.answer["confidence"] for one in talks} == {"high", "medium", "low"}
    return sum(one.answer["confidence"] == "high" for one in talks) / len(talks)


def test_confidence_says_something_but_not_everything() -> None:
    """High confidence is more frequent for right work, but not certain."""
    assert share_sure(1.0) == pytest.approx(0.6, abs=0.08)
    assert share_sure(0.0) == pytest.approx(0.3, abs=0.08)


def test_a_cheat_works_on_the_tests_and_claims_success() -> None:
    """A cheat overwrites a test or adds a hook, changes no code, and claims high confidence."""
    model = simulated(ONE, cheating=1.0)
    talks = [talk(model, "implementer", facts("x.py"), scope=f"step-{n}") for n in range(20)]
    written = {call["path"] for one in talks for call in one.calls_of("write")}
    assert written == {"conftest.py", ANCHOR["path"], *TESTS}
    assert not any(one.calls_of("apply_patch") for one in talks)
    assert {(one.answer["status"], one.answer["confidence"]) for one in talks} == {("done", "high")}


def test_cheating_has_the_configured_frequency() -> None:
    """The share of cheating tries is the configured one, whatever the skill."""
    model = simulated(ONE, cheating=0.25)
    talks = [talk(model, "implementer", facts("x.py"), scope=f"step-{n}") for n in range(400)]
    assert sum(bool(one.calls_of("write")) for one in talks) / 400 == pytest.approx(0.25, abs=0.07)


def test_correlated_tries_repeat_the_first_mistake() -> None:
    """With full correlation every candidate equals the first. Without it, some differ."""
    tries = {
        chance: {
            patch
            for n in range(40)
            for patch in patches_of(
                simulated(ONE, skill=0.5, correlation=chance), f"step-{n}", "x.py"
            )
        }
        for chance in (0.0, 1.0)
    }
    assert len(tries[1.0]) == 1
    assert len(tries[0.0]) > 1


def test_the_first_candidate_of_the_first_step_is_the_first_try() -> None:
    """The first candidate is right exactly if the attempt's first try is."""
    for seed in range(20):
        model = simulated(ONE, skill=0.5, seed=seed)
        given = facts("x.py", candidate=0, last_step=None)
        said = talk(model, "implementer", given, scope="step-1/candidate-0")
        [made] = said.calls_of("apply_patch")
        assert (made["patch"] == ONE) == model.right


def test_the_first_mistake_is_that_of_the_attempt() -> None:
    """A fully correlated try of the whole task is right exactly if the first one is."""
    for seed in range(20):
        model = simulated(ONE, skill=0.5, seed=seed, correlation=1.0)
        right = patches_of(simulated(ONE), "", "x.py")
        assert (patches_of(model, "step-7", "x.py") == right) == model.right
