"""Diffs as data: they are written back as read, and can be reverted."""

from pathlib import Path

import pytest

from agent.models.patches import parse, render, undoing
from tests.agent.models.patch_cases import CASES, Case, git, make, put

MODE = "diff --git a/run b/run\nold mode 100644\nnew mode 100755\n"


def diff_of(case: Case, repo: Path) -> str:
    """The case's changes as a workspace writes them; they stay in the work tree."""
    make(case, repo)
    put(repo, case.changes)
    git(repo, "add", "-A")
    options = ("--cached", "--binary", "--full-index", "--no-renames")
    return git(repo, "diff", *options).decode("utf-8", "surrogateescape")


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_change_can_be_undone(case: Case, tmp_path: Path) -> None:
    """Whatever was changed, the tree is that of the base commit again."""
    repo = tmp_path / "repo"
    back = render(undoing(file) for file in parse(diff_of(case, repo)))
    stdin = back.encode("utf-8", "surrogateescape")
    git(repo, "apply", "--index", "--whitespace=nowarn", stdin=stdin)
    assert git(repo, "status", "--porcelain") == b""


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_undoing_twice_is_the_change_itself(case: Case, tmp_path: Path) -> None:
    """Nothing of it is lost on the way."""
    diff = diff_of(case, tmp_path / "repo")
    assert render(parse(diff)) == diff
    assert render(undoing(undoing(file)) for file in parse(diff)) == diff


def test_a_mode_goes_back() -> None:
    """The old mode still stands first."""
    back = render(undoing(file) for file in parse(MODE))
    assert back == "diff --git a/run b/run\nold mode 100755\nnew mode 100644\n"


def test_a_renamed_file_has_two_paths_and_the_new_name() -> None:
    """Other files have one."""
    patch = "diff --git a/x b/y\nsimilarity index 100%\nrename from x\nrename to y\n" + MODE
    assert [(file.paths, file.name) for file in parse(patch)] == [
        (("x", "y"), "y"),
        (("run",), "run"),
    ]
