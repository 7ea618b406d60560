"""Files that a forge, or a service beside it, runs by itself when a branch is pushed."""

import re

from flows.jobs.changes import changed_paths

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
    for path in changed_paths(patch):
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
