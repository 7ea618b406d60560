"""The simulated model's reproduction test fails before the change and passes after it."""

import asyncio
import runpy
from pathlib import Path

import pytest

from agent.models.simulated.reference import Draws, damage
from agent.workspaces import HostWorkspace
from eval.instances import load
from eval.types import Instance
from eval.upstream import checkout
from tests.agent.models.patch_cases import CASES, KINDS, Case
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
    """Return whether the test passes before the change, after it, and after a wrong change."""
    model = simulated(tree.patch, seed=seed, **faults)
    results = []
    wrong = damage(tree.patch, Draws(f"0/{seed}/demo__one").rng("damage"))
    for patch in ("", tree.patch, wrong):
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
        assert outcomes(tree, seed)[:2] == [False, True]
    assert outcomes(tree, overspecified_anchors=1.0) == [False, False, False]


def test_a_test_sees_some_of_the_mistakes(tmp_path: Path) -> None:
    """A test checks one hunk. A wrong one can agree with the mistake of the first try."""
    tree = Tree(CASES[0], tmp_path / "repo")
    assert {outcomes(tree, seed)[2] for seed in range(8)} == {True, False}
    wrong = [outcomes(tree, seed, wrong_anchors=1.0) for seed in range(8)]
    assert [False, False, True] in wrong
    assert not any(before for before, _, _ in wrong)


def test_a_flaky_test_fails_before_and_mostly_passes_after(tmp_path: Path) -> None:
    """A flaky test always fails before the change and fails in some runs after it."""
    tree = Tree(CASES[1], tmp_path / "repo")
    model = simulated(tree.patch, flaky_anchors=1.0)
    talk(model, "anchor", {"brief": BRIEF}, act=tree.act)
    test = tree.root / BRIEF["anchor_path"]
    assert not any(passes(test) for _ in range(20))
    tree.act(Call("apply_patch", {"patch": tree.patch}))
    assert 30 < sum(passes(test) for _ in range(80)) < 80


@pytest.mark.full
async def test_the_test_works_in_every_bundled_task(tmp_path: Path) -> None:
    """In a real workspace pytest fails on an assertion before the patch and passes after it."""
    limit = asyncio.Semaphore(4)

    async def check(instance: Instance) -> None:
        async with limit:
            workspace = await HostWorkspace.open(
                prepare=lambda path: checkout(
                    instance.repo, instance.base_commit, path, tmp_path / "upstream"
                ),
                base_commit=instance.base_commit,
            )
            try:
                model = simulated(instance.patch, name=instance.instance_id)
                facts = {"test_files": ["tests/test_x.py"]}
                [new] = (await asyncio.to_thread(talk, model, "anchor", facts)).calls_of(
                    "write_new"
                )
                await workspace.write(new["path"], new["content"].encode())
                pytest_run = f"python -m pytest -q -p no:cacheprovider {new['path']}"
                before = await workspace.run(pytest_run, timeout_s=60)
                assert (before.exit_code, "AssertionError" in before.output) == (1, True)
                await workspace.write("reference.patch", instance.patch.encode())
                apply = await workspace.run("git apply reference.patch", timeout_s=60)
                assert apply.exit_code == 0, apply.output
                assert (await workspace.run(pytest_run, timeout_s=60)).exit_code == 0
            finally:
                await workspace.close()

    await asyncio.gather(*map(check, load("bundled")))
