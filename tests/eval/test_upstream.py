"""Repositories built from the bundled patch series contain exactly the history they may show."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from eval import upstream as module
from eval.errors import RepositoryError
from eval.upstream import bundle, checkout, series, upstream

TASKS = Path(module.__file__).parent / "tasks"
METADATA = [
    yaml.safe_load(path.read_text())
    for repo in (TASKS, TASKS / "polyglot")
    for path in sorted(repo.glob("tasks/*/task.yaml"))
]
REPOS = sorted({task["repo"] for task in METADATA})
REPO = REPOS[0]


def git(folder: Path, *arguments: str) -> str:
    """Run git in a folder as the user would. Return its output."""
    environment = {name: value for name, value in os.environ.items() if name != "GIT_DIR"}
    done = subprocess.run(
        ["git", *arguments], cwd=folder, env=environment, check=True, capture_output=True
    )
    return done.stdout.decode().strip()


def objects(folder: Path) -> set[str]:
    """Return every object in the object store, reachable or not."""
    listed = git(folder, "cat-file", "--batch-all-objects", "--batch-check=%(objectname)")
    return set(listed.split())


def reachable(folder: Path, commit: str) -> set[str]:
    return {line.split()[0] for line in git(folder, "rev-list", "--objects", commit).splitlines()}


def history(repo: str, cache: Path) -> list[str]:
    return git(upstream(repo, cache), "rev-list", "--reverse", "main").split()


def first_base(repo: str) -> str:
    return next(task["base_commit"] for task in METADATA if task["repo"] == repo)


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("upstream") / "not" / "there yet"


@pytest.fixture
def hostile_git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Set up a user whose git configuration interferes in every possible way. Return the home
    folder."""
    home = tmp_path / "home"
    hooks = home / "hooks"
    hooks.mkdir(parents=True)
    for name in ("pre-commit", "commit-msg", "post-checkout", "applypatch-msg", "pre-applypatch"):
        (hooks / name).write_text("#!/bin/sh\nexit 1\n")
        (hooks / name).chmod(0o755)
    shutil.copytree(hooks, home / "template" / "hooks")
    (home / "commit-template").write_text("TICKET: \n")
    (home / ".gitconfig").write_text(
        f"[core]\n\tautocrlf = true\n\thooksPath = {hooks}\n"
        f"[init]\n\ttemplateDir = {home / 'template'}\n\tdefaultBranch = trunk\n"
        f"[commit]\n\tgpgSign = true\n\ttemplate = {home / 'commit-template'}\n"
        "[gpg]\n\tprogram = /bin/false\n[am]\n\tkeepcr = false\n[fetch]\n\tfsckObjects = false\n"
        "[user]\n\tname = Somebody\n\temail = somebody@example.org\n"
    )
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("GIT_DIR", str(home / "elsewhere"))
    return home


@pytest.mark.parametrize("repo", REPOS)
def test_a_series_gives_the_commits_it_was_made_of(repo: str, cache: Path) -> None:
    """Replaying a series yields the commit ids in its patches, among them every task's base
    commit."""
    folder = series(repo)
    assert folder is not None
    recorded = [path.read_text().split()[1] for path in sorted(folder.glob("*.patch"))]
    assert history(repo, cache) == recorded
    assert {task["base_commit"] for task in METADATA if task["repo"] == repo} <= {*recorded}


@pytest.mark.parametrize("task", METADATA, ids=lambda task: task["instance_id"])
def test_a_checkout_contains_nothing_newer_than_its_commit(
    task: dict[str, str], cache: Path, tmp_path: Path
) -> None:
    """The objects of a checkout are exactly those reachable from the base commit, without the
    fix."""
    repo, base = task["repo"], task["base_commit"]
    checkout(repo, base, tmp_path / "work", cache)
    assert git(tmp_path / "work", "rev-parse", "HEAD") == base
    assert objects(tmp_path / "work") == reachable(upstream(repo, cache), base)
    commits = history(repo, cache)
    fix = commits[commits.index(base) + 1]
    with pytest.raises(subprocess.CalledProcessError):
        git(tmp_path / "work", "cat-file", "-e", fix)


def test_a_bundle_is_the_same_every_time(cache: Path, tmp_path: Path) -> None:
    """Two bundles of a commit are equal byte for byte, so that a cached image layer stays valid."""
    for name in ("one", "two"):
        bundle(REPO, first_base(REPO), tmp_path / name, cache)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


def test_a_checkout_does_not_reveal_its_origin(cache: Path, tmp_path: Path) -> None:
    """A checkout is clean and on `main`. It has no remote, no reflog and no trace of the upstream's
    path."""
    work = tmp_path / "work"
    checkout(REPO, first_base(REPO), work, cache)
    assert git(work, "status", "--porcelain") == ""
    assert git(work, "for-each-ref", "--format=%(refname)") == "refs/heads/main"
    assert git(work, "symbolic-ref", "HEAD") == "refs/heads/main"
    assert git(work, "remote") == ""
    assert git(work, "reflog") == ""
    source = str(upstream(REPO, cache)).encode()
    files = [path for path in (work / ".git").rglob("*") if path.is_file()]
    assert [path for path in files if source in path.read_bytes()] == []


def test_the_configuration_of_the_user_does_not_matter(hostile_git: Path, tmp_path: Path) -> None:
    """The user's hooks, templates, signing and autocrlf neither stop a build nor change a
    commit."""
    work = tmp_path / "work"
    checkout("durabench/quillet", first_base("durabench/quillet"), work, tmp_path / "cache")
    bundle("durabench/quillet", first_base("durabench/quillet"), tmp_path / "b", tmp_path / "cache")
    assert not (hostile_git / "elsewhere").exists()
    assert git(work, "rev-parse", "HEAD") == first_base("durabench/quillet")
    assert git(work, "status", "--porcelain") == ""


def copy_of_series(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Copy the patch series and make the module use the copy. Return the first package's folder."""
    shutil.copytree(TASKS / "repos", tmp_path / "repos")
    monkeypatch.setattr(module, "_SERIES", tmp_path / "repos")
    folder = series(REPO)
    assert folder is not None
    return folder


def test_a_damaged_series_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A patch that applies but results in another commit id is an error."""
    folder = copy_of_series(tmp_path, monkeypatch)
    last = sorted(folder.glob("*.patch"))[-1]
    last.write_text(last.read_text().replace("Subject: [PATCH] ", "Subject: [PATCH] Not "))
    with pytest.raises(RepositoryError, match="does not give its own commits"):
        upstream(REPO, tmp_path / "cache")
    assert list((tmp_path / "cache").iterdir()) == []


@pytest.mark.parametrize(
    "repo",
    ["django/django", "durabench/absent", "durabench/", "durabench/../repos", "tidyini", ""],
)
def test_unknown_repositories(repo: str, tmp_path: Path) -> None:
    """A repository that is not bundled has no series, and asking for it is an error."""
    assert series(repo) is None
    with pytest.raises(RepositoryError, match="is not a bundled repository"):
        upstream(repo, tmp_path)


@pytest.mark.parametrize("commit", ["0" * 40, "main", "--all", ""])
def test_unknown_commits(commit: str, cache: Path, tmp_path: Path) -> None:
    """Only complete ids of commits of the series are accepted. A refused call leaves no files."""
    with pytest.raises(RepositoryError, match="is not a commit of"):
        checkout(REPO, commit, tmp_path / "work", cache)
    with pytest.raises(RepositoryError, match="is not a commit of"):
        bundle(REPO, commit, tmp_path / "bundle", cache)
    assert list(tmp_path.iterdir()) == []


def test_a_cache_without_its_branch_is_an_error(tmp_path: Path) -> None:
    """A cached repository without its branch is an error that says what to remove."""
    repository = upstream(REPO, tmp_path)
    (repository / "refs" / "heads" / "main").write_text("0" * 40 + "\n")
    with pytest.raises(RepositoryError, match="is damaged: remove it") as error:
        upstream(REPO, tmp_path)
    assert str(repository) in str(error.value)


def test_a_destination_in_use_is_left_alone(cache: Path, tmp_path: Path) -> None:
    """A destination that is not empty is refused and keeps its content. An empty folder is
    accepted."""
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(RepositoryError, match="is in the way"):
        checkout(REPO, first_base(REPO), tmp_path, cache)
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]
    (tmp_path / "empty").mkdir()
    checkout(REPO, first_base(REPO), tmp_path / "empty", cache)
    assert (tmp_path / "empty" / "README.md").is_file()
