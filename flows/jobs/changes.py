"""The files that a patch changes, and which of them a forge runs by itself."""

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
        output = git.git(
            Path("/"), "apply", "--numstat", "-z", "-",
            text=encode_patch(patch), variables={"GIT_DIR": "/nonexistent"},
        )  # fmt: skip
    except RepositoryError:
        return []
    fields = (record.split("\t", 2) for record in output.split("\0") if record)
    return [
        (path, int(added.replace("-", "0")), int(removed.replace("-", "0")))
        for added, removed, path in fields
    ]


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
    """Return the files of a patch that run by themselves, each with the program that runs it."""
    paths = [*(path for path, _, _ in read_changes(patch)), *_RENAMED.findall(patch)]
    files = []
    for path in paths:
        for beginning, what in RUNS_BY_ITSELF:
            if re.search(f"(^|/){re.escape(beginning)}", path.lower()):
                files.append((path, what))
                break
    return files


def tell_automation(patch: str | None) -> str:
    """Return in one line that a patch changes files that run by themselves; '' if it does not."""
    files = [path for path, _ in find_automation(patch or "")]
    more = f" and {len(files) - _NAMED} more" if len(files) > _NAMED else ""
    names = ", ".join(files[:_NAMED])
    return f"changes files that run by themselves: {names}{more}" if files else ""
