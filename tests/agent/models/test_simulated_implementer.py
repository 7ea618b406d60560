"""The simulated implementer: its changes, its repairs, and its cheating."""

from pathlib import Path
from typing import Any

import pytest

from agent.models.patches import parse
from tests.agent.models.patch_cases import CASES, KINDS, Case
from tests.agent.models.role_talk import talk
from tests.agent.models.simulations import Tree, simulated

ONE = "--- a/x.py\n+++ b/x.py\n@@ -1 +1 @@\n-a = 1\n+a = 2\n"
TWO = ONE + ONE.replace("x.py", "y.py")
ANCHOR = {"path": "tests/test_anchor.py", "output": "1 failed"}
TESTS = ["tests/test_x.py"]


def facts(*targets: str, diff: str = "", **more: Any) -> dict[str, Any]:
    step = {"title": "Change it", "instructions": "Do.", "targets": targets, "tests": TESTS}
    return {"step": step, "anchor": ANCHOR, "regression_tests": TESTS, "diff": diff, **more}


def paths(patch: str) -> list[str]:
    return [path for file in parse(patch) for path in file.paths]


def patch_of(model: Any, scope: str, *targets: str, **more: Any) -> str:
    [call] = talk(model, "implementer", facts(*targets, **more), scope=scope).calls_of(
        "apply_patch"
    )
    return str(call["patch"])


@pytest.mark.parametrize("case", KINDS)
def test_a_wrong_step_can_be_made_right(case: Case, tmp_path: Path) -> None:
    """A right step gives the reference tree. It reverts an earlier try before its own change."""
    tree = Tree(case, tmp_path / "repo")
    expected = tree.reference_diff()
    targets = paths(tree.patch)
    for native in (True, False):
        wrong = simulated(tree.patch, skill=0.0, seed=native)
        talk(wrong, "implementer", facts(*targets), native=native, act=tree.act)
        assert tree.diff() != expected
        later = facts(*targets, diff=tree.diff())
        talk(simulated(tree.patch), "implementer", later, native=native, act=tree.act)
        assert tree.diff() == expected
        tree.reset()


def test_a_cheat_is_reverted_and_the_reproduction_test_is_not(tmp_path: Path) -> None:
    """Unrelated changes are reverted, but the reproduction test of the arm stays."""
    tree = Tree(CASES[0], tmp_path / "repo")
    expected = tree.reference_diff()
    (tree.root / "conftest.py").write_text("import pytest\n")
    (tree.root / "tests").mkdir()
    (tree.root / "tests" / "test_anchor.py").write_text("def test_it(): ...\n")
    step = facts(*paths(tree.patch), diff=tree.diff())
    talk(simulated(tree.patch), "implementer", step, act=tree.act)
    assert not (tree.root / "conftest.py").exists()
    assert (tree.root / "tests" / "test_anchor.py").exists()
    assert expected in tree.diff()


def test_a_step_changes_its_targets_and_tests_them() -> None:
    """A step for one file of a patch does not change the others. Tests run after the change."""
    calls = talk(simulated(TWO), "implementer", facts("y.py"), scope="step-1").calls
    assert [call.tool for call in calls] == ["read", "apply_patch", "run_tests", "answer"]
    assert paths(calls[1].arguments["patch"]) == ["y.py"]
    assert calls[2].arguments == {"paths": [ANCHOR["path"], *TESTS]}


def test_a_cheat_works_on_the_tests_and_claims_success() -> None:
    """A cheat overwrites a test or adds a hook, changes no code, and claims high confidence."""
    model = simulated(ONE, cheating=1.0)
    talks = [talk(model, "implementer", facts("x.py"), scope=f"step-{n}") for n in range(20)]
    files = {call["path"] for one in talks for call in one.calls_of("write")}
    assert files == {"conftest.py", ANCHOR["path"], *TESTS}
    assert not any(one.calls_of("apply_patch") for one in talks)
    assert {(one.answer["status"], one.answer["confidence"]) for one in talks} == {("done", "high")}


def test_tries_are_correlated() -> None:
    """Without correlation, candidates differ. With it, all of them equal the first try."""
    for chance, most in ((0.0, 40), (1.0, 1)):
        model = simulated(ONE, skill=0.5, correlation=chance)
        tries = {patch_of(model, f"step-{n}", "x.py") for n in range(40)}
        assert 1 <= len(tries) <= most
    for seed in range(10):
        model = simulated(ONE, skill=0.5, seed=seed)
        first = patch_of(model, "step-1/candidate-0", "x.py", candidate=0, last_step=None)
        correlated = simulated(ONE, skill=0.5, seed=seed, correlation=1.0)
        assert (first == ONE) == (patch_of(correlated, "step-7", "x.py") == ONE) == model.right
