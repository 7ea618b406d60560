"""Refusals of `durabench job`: one line, exit code 2, and nothing half-done."""

from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from flows.cli.app import app
from flows.storage.lake import Lake
from tests.flows.jobs.conftest import NAME, REPAIR, arm
from tests.servers.forge import Forge

pytestmark = [pytest.mark.usefixtures("prefect"), pytest.mark.slow]

TASK = "Add, don't subtract."
REFUSES = (
    "#!/bin/sh\necho 'error: GH006: Protected branch update failed for refs/heads/x.' >&2\nexit 1\n"
)


def refused(lake: str, source: str, *options: str, arms: Path) -> str:
    """Return the one line of a refused job."""
    command = ["job", source, TASK, "-x", str(arms), "-e", "host", "--lake", lake, *options]
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 2, done.output
    *progress, line = [line for line in done.stderr.splitlines() if line]
    assert all(line.startswith("job ") for line in progress)
    assert line.startswith("durabench: ")
    return line


@pytest.fixture
def arms(tmp_path: Path) -> Path:
    """Write an experiment with one arm that repairs the project. Return its path."""
    path = tmp_path / "arms.yaml"
    path.write_text(yaml.safe_dump({"name": "arms", "arms": [arm("repair", REPAIR)]}))
    return path


def dirty(forge: Forge) -> str:
    """Return the path of a work tree with a change."""
    work = forge.folder / "work" / NAME
    (work / "calc.py").write_text("changed\n")
    return str(work)


def without_tests(forge: Forge) -> str:
    """Return a repository in which no test command is detected."""
    forge.add("octo/bare", {"a.txt": "1\n"})
    return "octo/bare"


def on_no_forge(forge: Forge) -> str:
    """Return the path of a repository that was cloned from nowhere."""
    work = forge.folder / "work" / NAME
    forge.git(NAME, "-C", str(work), "remote", "remove", "origin")
    return str(work)


@pytest.mark.parametrize(
    ("source", "options", "said"),
    [
        (lambda forge: "octo/none", (), "there is no repository"),
        (lambda forge: "/no/such/folder", (), "there is no such folder"),
        (lambda forge: NAME, ("--ref", "none"), "no branch, tag or commit 'none'"),
        (dirty, (), "has changed files that are not committed (1)"),
        (without_tests, (), "no test command is detected"),
        (on_no_forge, (), "is not on a forge"),
        (lambda forge: f"{forge.url}/{NAME}/issues/9", (), "the forge has no issue"),
    ],
)
def test_what_cannot_begin_leaves_nothing(
    source: Callable[[Forge], str],
    options: tuple[str, ...],
    said: str,
    forge: Forge,
    lake_path: str,
    arms: Path,
) -> None:
    """The lake has no job, nothing was bought, and the repository is unchanged."""
    place, before = source(forge), forge.branches(NAME)
    assert said in refused(lake_path, place, "--pr", *options, arms=arms)
    lake = Lake.existing(lake_path)
    assert lake.all_shared("jobs") == []
    assert lake.experiments() == []
    assert (forge.branches(NAME), forge.pulls[NAME]) == (before, [])


def protected(forge: Forge) -> Callable[[], None]:
    """Protect all branches. Return what ends that."""
    hook = forge.path(NAME) / "hooks" / "update"
    hook.write_text(REFUSES)
    hook.chmod(0o755)
    return hook.unlink


@pytest.mark.full
def test_what_cannot_be_published_continues_when_it_can(
    forge: Forge, lake_path: str, arms: Path
) -> None:
    """No pull request is opened. The patch is kept, and the next call buys nothing again."""
    allow, said = protected(forge), "protects the branch durabench/"
    assert said in refused(lake_path, NAME, "--pr", arms=arms)
    lake = Lake.existing(lake_path)
    [row] = lake.all_shared("jobs")
    assert (row["verdict"], row["pull_request"], forge.pulls[NAME]) == ("nothing_broke", None, [])
    assert said in row["detail"]
    allow()
    command = ["job", NAME, TASK, "-x", str(arms), "-e", "host", "--lake", lake_path, "--pr"]
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 0, done.output
    assert [len(forge.pulls[NAME]), len(forge.branches(NAME))] == [1, 2]
    assert len(lake.rows("llm_calls", f"job-{row['job_id']}")) == 1
