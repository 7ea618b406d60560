"""Diffs as data: they are written back as read, and can be reverted."""

from pathlib import Path

import pytest

from agent.models.patches import invert, parse, render
from tests.agent.models.patch_cases import CASES, Case, git, make, put

MODE = "diff --git a/run b/run\nold mode 100644\nnew mode 100755\n"


def diff_of(case: Case, repo: Path) -> str:
    """Make the case's changes in the work tree. Return their diff as a workspace writes it."""
    make(case, repo)
    put(repo, case.changes)
    git(repo, "add", "-A")
    options = ("--cached", "--binary", "--full-index", "--no-renames")
    return git(repo, "diff", *options).decode("utf-8", "surrogateescape")


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_change_can_be_undone(case: Case, tmp_path: Path) -> None:
    """Undoing any change restores the base commit. Undoing it twice gives the original diff."""
    repo = tmp_path / "repo"
    diff = diff_of(case, repo)
    assert render(parse(diff)) == diff
    assert render(invert(invert(file)) for file in parse(diff)) == diff
    inverse = render(invert(file) for file in parse(diff)).encode("utf-8", "surrogateescape")
    git(repo, "apply", "--index", "--whitespace=nowarn", stdin=inverse)
    assert git(repo, "status", "--porcelain") == b""


def test_a_mode_change_can_be_undone() -> None:
    """The undone diff names the current mode first and the restored one second."""
    back = render(invert(file) for file in parse(MODE))
    assert back == "diff --git a/run b/run\nold mode 100755\nnew mode 100644\n"


def test_a_renamed_file_has_two_paths_and_the_new_name() -> None:
    """A renamed file has its old and new path, and any other file has one path."""
    patch = "diff --git a/x b/y\nsimilarity index 100%\nrename from x\nrename to y\n" + MODE
    assert [(file.paths, file.name) for file in parse(patch)] == [
        (("x", "y"), "y"),
        (("run",), "run"),
    ]
