"""The simulated implementer: its changes, its repairs, and its cheating."""

from pathlib import Path
from typing import Any

import pytest

from agent.models.patches import parse
from tests.agent.models.patch_cases import CASES, KINDS, Case
from tests.agent.models.role_talk import talk
from tests.agent.models.simulations import Tree, simulated

ANCHOR = {"path": "tests/test_anchor.py", "output": "1 failed"}
TESTS = ["tests/test_x.py"]


def facts(*targets: str, diff: str = "", **more: Any) -> dict[str, Any]:
    step = {"title": "Change it", "instructions": "Do.", "targets": targets, "tests": TESTS}
    return {"step": step, "anchor": ANCHOR, "regression_tests": TESTS, "diff": diff, **more}


def paths(patch: str) -> list[str]:
    return [path for file in parse(patch) for path in file.paths]


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
