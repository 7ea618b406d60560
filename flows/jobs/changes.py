"""The files that a patch changes, and those that a forge runs by itself."""

import re
from pathlib import Path

from eval import git
from eval.errors import RepositoryError
from flows.storage.files import encode_patch

_RENAMED = re.compile(r"^rename from (.+)$", re.MULTILINE)


def read_changes(patch: str) -> list[tuple[str, int, int]]:
    """Return path, added and removed lines of each file of a patch; none if git cannot read it.

    A binary file has no lines.
    """
    if not patch.strip():
        return []
    try:
        # Inside a repository, git would leave out files of other folders.
        shown = git.git(
            Path("/"), "apply", "--numstat", "-z", "-",
            given=git.Given(text=encode_patch(patch), variables={"GIT_DIR": "/nonexistent"}),
        )  # fmt: skip
    except RepositoryError:
        return []
    found = (record.split("\t", 2) for record in shown.split("\0") if record)
    return [(path, _count(added), _count(removed)) for added, removed, path in found]


def list_paths(patch: str) -> list[str]:
    """Return the paths of the files of a patch, those before a renaming, too."""
    return [*(path for path, _, _ in read_changes(patch)), *_RENAMED.findall(patch)]


def _count(lines: str) -> int:
    return 0 if lines == "-" else int(lines)


RUNS_BY_ITSELF = (
    (".github/", "GitHub Actions and their settings"),
    (".forgejo/", "Forgejo Actions"),
    (".gitea/", "Gitea Actions"),
    (".gitlab/", "GitLab CI and its settings"),
    (".gitlab-ci", "GitLab CI"),
    (".circleci/", "CircleCI"),
    (".buildkite/", "Buildkite"),
    (".woodpecker", "Woodpecker"),
    (".drone", "Drone"),
    (".semaphore/", "Semaphore"),
    (".teamcity/", "TeamCity"),
    (".tekton/", "Tekton"),
    (".azure-pipelines", "Azure Pipelines"),
    ("azure-pipelines", "Azure Pipelines"),
    ("bitbucket-pipelines", "Bitbucket Pipelines"),
    ("jenkinsfile", "Jenkins"),
    (".travis", "Travis CI"),
    (".appveyor", "AppVeyor"),
    ("appveyor", "AppVeyor"),
    (".cirrus", "Cirrus CI"),
    (".builds/", "SourceHut"),
    (".build.yml", "SourceHut"),
    ("cloudbuild", "Google Cloud Build"),
    ("buildspec", "AWS CodeBuild"),
)
"""Beginnings of paths, in small letters, of the repository or of any of its folders."""

_NAMED = 5
"""Maximum number of files that a line names."""


def find_automation(patch: str) -> list[tuple[str, str]]:
    """Return the files of a patch that run by themselves, each with what runs it."""
    found = []
    for path in list_paths(patch):
        for beginning, what in RUNS_BY_ITSELF:
            if re.search(f"(^|/){re.escape(beginning)}", path.lower()):
                found.append((path, what))
                break
    return found


def tell_automation(patch: str | None) -> str:
    """Return in a line that a patch changes files that run by themselves; '' if it does not."""
    files = [path for path, _ in find_automation(patch or "")]
    more = f" and {len(files) - _NAMED} more" if len(files) > _NAMED else ""
    named = ", ".join(files[:_NAMED])
    return f"changes files that run by themselves: {named}{more}" if files else ""
