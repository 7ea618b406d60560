"""The simulated model's reproduction test fails before the change and passes after it."""

import runpy
from pathlib import Path

import pytest

from tests.agent.models.patch_cases import KINDS, Case
from tests.agent.models.role_talk import Call, talk
from tests.agent.models.simulations import Tree, simulated

BRIEF = {"anchor_path": "tests/unit/test_anchor.py", "regression_tests": ["tests/test_a.py"]}


def passes(test: Path) -> bool:
    """Run the functions of a test file. Return False if an assertion fails."""
    tests = [value for name, value in runpy.run_path(str(test)).items() if name.startswith("test")]
    assert tests
    try:
        for run in tests:
            run()
    except AssertionError:
        return False
    return True


def outcomes(tree: Tree, seed: int = 1, **faults: float) -> list[bool]:
    """Return whether the test passes before the change, and after it."""
    model = simulated(tree.patch, seed=seed, **faults)
    results = []
    for patch in ("", tree.patch):
        talk(model, "anchor", {"brief": BRIEF}, act=tree.act)
        if patch:
            tree.act(Call("apply_patch", {"patch": patch}))
        results.append(passes(tree.root / BRIEF["anchor_path"]))
        tree.reset()
    return results


@pytest.mark.parametrize("case", KINDS)
def test_the_test_fails_before_the_change_and_passes_after(case: Case, tmp_path: Path) -> None:
    """It holds for any patch and any chosen hunk. Right work fails an overspecified test."""
    tree = Tree(case, tmp_path / "repo")
    for seed in range(2):
        assert outcomes(tree, seed) == [False, True]
    assert outcomes(tree, overspecified_anchors=1.0) == [False, False]
