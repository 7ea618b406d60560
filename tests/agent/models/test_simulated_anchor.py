"""The simulated model's reproduction test fails before the change and passes after it."""

import ast
import asyncio
import runpy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agent.models.damage import damage
from agent.models.simulated.reference import Draws
from agent.workspaces import HostWorkspace, Workspace
from eval.instances import load
from eval.types import Instance
from eval.upstream import checkout
from tests.agent.models.patch_cases import CASES, Case
from tests.agent.models.role_talk import Call, Talk, talk
from tests.agent.models.simulations import Tree, simulated

pytestmark = pytest.mark.sampled(5)

BRIEF = {"anchor_path": "tests/unit/test_anchor.py", "regression_tests": ["tests/test_a.py"]}
SEEDS = range(6)


def written(patch: str, seed: int = 1, **facts: Any) -> Talk:
    return talk(simulated(patch, seed=seed), "anchor", {"brief": BRIEF, **facts})


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


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_test_fails_before_the_change_and_passes_after(case: Case, tmp_path: Path) -> None:
    """The test fails before the change and passes after it for any patch and any chosen hunk."""
    tree = Tree(case, tmp_path / "repo")
    for seed in SEEDS:
        said = talk(simulated(tree.patch, seed=seed), "anchor", {"brief": BRIEF}, act=tree.act)
        assert said.answer["reproduced"]
        test = tree.root / BRIEF["anchor_path"]
        assert not passes(test)
        tree.act(Call("apply_patch", {"patch": tree.patch}))
        assert passes(test)
        tree.reset()


def test_the_hunk_is_drawn_by_seed(tmp_path: Path) -> None:
    """Attempts differ in the hunk that their reproduction test checks."""
    patch = Tree(CASES[0], tmp_path / "repo").patch
    tests = {str(written(patch, seed).calls_of("write_new")) for seed in range(20)}
    assert len(tests) == 2


def test_a_wrong_change_may_pass_the_test(tmp_path: Path) -> None:
    """The test checks a single hunk, so it catches some of the wrong changes but not all."""
    tree = Tree(CASES[0], tmp_path / "repo")
    verdicts = []
    for seed in range(20):
        talk(simulated(tree.patch, seed=seed), "anchor", {"brief": BRIEF}, act=tree.act)
        wrong = simulated(tree.patch, seed=seed, skill=0.0)
        talk(wrong, "implementer", {"step": {"targets": ["pkg/a.py"]}}, act=tree.act)
        verdicts.append(passes(tree.root / BRIEF["anchor_path"]))
        tree.reset()
    assert set(verdicts) == {True, False}


def test_code_comes_before_prose(tmp_path: Path) -> None:
    """If a patch changes code and prose, the reproduction test checks the code."""
    prose = Case("both", {"a.py": b"x = 1\n", "b.md": b"One.\n"}, {"a.py": b"1\n", "b.md": b"2\n"})
    patch = Tree(prose, tmp_path / "repo").patch
    for seed in SEEDS:
        assert "'a.py'" in written(patch, seed).calls_of("write_new")[0]["content"]


def test_the_author_follows_the_steps_of_the_role(tmp_path: Path) -> None:
    """The author reads, writes a new ASCII file where the brief says, runs it and reports."""
    case = next(case for case in CASES if case.name == "non-ascii")
    said = written(Tree(case, tmp_path / "repo").patch)
    assert [call.tool for call in said.calls] == ["read", "write_new", "run_tests", "answer"]
    new, run = said.calls[1].arguments, said.calls[2].arguments
    assert new["path"] == said.answer["path"] == BRIEF["anchor_path"]
    assert run == {"paths": [BRIEF["anchor_path"]]}
    assert said.answer["regression_tests"] == BRIEF["regression_tests"]
    assert new["content"].isascii()
    assert any(isinstance(node, ast.Assert) for node in ast.walk(ast.parse(new["content"])))


def test_the_author_finds_a_path_without_a_brief(tmp_path: Path) -> None:
    """Without a brief the test is placed with existing tests and named after the task."""
    patch = Tree(CASES[0], tmp_path / "repo").patch
    files = ["test/unit/test_a.py", "test/unit/test_b.py", "test/test_c.py"]
    beside = written(patch, brief=None, test_files=files).answer["path"]
    alone = written(patch, brief=None).answer["path"]
    assert Path(beside).parent == Path("test/unit")
    assert Path(alone).parent == Path("tests")
    assert Path(beside).name == Path(alone).name != written(patch).answer["path"]


def test_a_change_without_text_is_not_reproduced() -> None:
    """A patch that changes only a file's mode leaves no text to check, and the model says so."""
    patch = "diff --git a/run b/run\nold mode 100644\nnew mode 100755\n"
    said = written(patch)
    assert not said.answer["reproduced"]
    assert not said.calls_of("write_new")


@pytest.fixture(scope="module")
def instances() -> list[Instance]:
    return load("bundled")


async def judged(workspace: Workspace, path: str) -> tuple[int, str]:
    command = f"python -m pytest -q -p no:cacheprovider {path}"
    result = await workspace.run(command, timeout_s=60)
    return result.exit_code, result.output


async def before_and_after(instance: Instance, cache: Path) -> None:
    """Write the reproduction test at the base commit, and run it before and after the patch."""
    workspace = await HostWorkspace.open(
        prepare=lambda path: checkout(instance.repo, instance.base_commit, path, cache),
        base_commit=instance.base_commit,
    )
    try:
        model = simulated(instance.patch, name=instance.instance_id)
        said = await asyncio.to_thread(talk, model, "anchor", {"test_files": ["tests/test_x.py"]})
        new = said.calls_of("write_new")[0]
        await workspace.write(new["path"], new["content"].encode())
        exit_code, output = await judged(workspace, new["path"])
        assert exit_code == 1
        assert "AssertionError" in output
        await workspace.write("reference.patch", instance.patch.encode())
        applied = await workspace.run("git apply reference.patch", timeout_s=60)
        assert applied.exit_code == 0, applied.output
        assert (await judged(workspace, new["path"]))[0] == 0
    finally:
        await workspace.close()


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    return tmp_path_factory.mktemp("upstream")


@pytest.mark.slow
async def test_the_test_works_in_every_bundled_task(instances: list[Instance], cache: Path) -> None:
    """In a real workspace pytest fails on an assertion before the patch and passes after it."""
    assert len(instances) == 15
    together = asyncio.Semaphore(4)

    async def one(instance: Instance) -> None:
        async with together:
            await before_and_after(instance, cache)

    await asyncio.gather(*map(one, instances))


def outcomes(case: Case, folder: Path, seed: int = 1, **faults: float) -> list[bool]:
    """Return whether the test passes before the change, after it, and after a wrong change."""
    tree = Tree(case, folder)
    model = simulated(tree.patch, seed=seed, **faults)
    passed = []
    wrong = damage(tree.patch, Draws(f"0/{seed}/demo__one").rng("damage"))
    for patch in ("", tree.patch, wrong):
        talk(model, "anchor", {"brief": BRIEF}, act=tree.act)
        if patch:
            tree.act(Call("apply_patch", {"patch": patch}))
        passed.append(passes(tree.root / BRIEF["anchor_path"]))
        tree.reset()
    return passed


def test_a_wrong_test_agrees_with_the_mistake_of_the_first_try(tmp_path: Path) -> None:
    """A wrong test fails at the base and on the right change, and may pass on the mistake."""
    found = [
        outcomes(CASES[0], tmp_path / str(seed), seed, wrong_anchors=1.0) for seed in range(12)
    ]
    assert [False, False, True] in found
    assert all(not before for before, _, _ in found)


def test_an_overspecified_test_fails_on_correct_work(tmp_path: Path) -> None:
    """An overspecified test asks for a detail that does not exist, so right work fails it."""
    for number, case in enumerate(CASES[:6]):
        folder = tmp_path / str(number)
        assert outcomes(case, folder, overspecified_anchors=1.0) == [False, False, False]


def test_a_flaky_test_fails_before_and_mostly_passes_after(tmp_path: Path) -> None:
    """A flaky test always fails before the change and fails in some runs after it."""
    tree = Tree(CASES[1], tmp_path / "repo")
    model = simulated(tree.patch, flaky_anchors=1.0)
    talk(model, "anchor", {"brief": BRIEF}, act=tree.act)
    test = tree.root / BRIEF["anchor_path"]
    assert not any(passes(test) for _ in range(20))
    tree.act(Call("apply_patch", {"patch": tree.patch}))
    assert 30 < sum(passes(test) for _ in range(80)) < 80


def test_faults_have_the_configured_frequency() -> None:
    """The shares of faulty tests are the configured ones."""
    model_of = {"overspecified_anchors": 0.25, "flaky_anchors": 0.25}
    patch = "--- a/x.py\n+++ b/x.py\n@@ -1 +1 @@\n-a = 1\n+a = 2\n"
    tests = [
        str(
            talk(simulated(patch, seed=seed, **model_of), "anchor", {"brief": BRIEF}).calls_of(
                "write_new"
            )
        )
        for seed in range(300)
    ]
    assert sum("_as_stated" in test for test in tests) / 300 == pytest.approx(0.25, abs=0.08)
    assert sum("random" in test for test in tests) / 300 == pytest.approx(0.25, abs=0.08)
