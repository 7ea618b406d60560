"""The repository of a job, its project and image, and the experiment that solves its task."""

import asyncio
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agent.errors import InfrastructureError
from agent.project import Project, custom, detect
from agent.workspaces import Environment
from eval import git, instances, job_images, repositories
from eval.base_image import connect
from eval.errors import RepositoryError
from eval.image_store import ImageStore
from eval.job_images import ImageRecipe
from eval.repositories import RepositorySource
from eval.types import Instance
from flows.display.errors import UsageError
from flows.experiments import declaration
from flows.experiments.cells import Place
from flows.experiments.declaration import Experiment
from flows.experiments.resources import refuse_excess
from flows.jobs import forge, publishing, rows
from flows.jobs.request import Request, access_to
from flows.jobs.request import forge as own_forge
from flows.jobs.verification import Checks
from flows.storage.images import ImageCache, cache_folder
from flows.storage.job_names import experiment_of
from flows.storage.lake import Lake, Row

_UNUSUAL = re.compile(r"[^A-Za-z0-9_.-]+")
"""Characters of folder names that ids of instances may not have."""


@dataclass(frozen=True)
class Prepared:
    """A job whose base commit and task are fixed."""

    request: Request
    row: Row
    source: RepositorySource
    mirror: Path
    recipe: ImageRecipe | None
    """None on the host."""
    checks: Checks | None
    """None without verification."""
    instance: Instance
    experiment: Experiment
    follows: bool
    """True if it begins at what earlier steps of a pipeline made, in the image of their base."""


def prepare(
    request: Request, lake: Lake, within: Prepared | None = None, **known_as: str
) -> Prepared:
    """Fetch the repository, fix the job's base commit and task, and write its row.

    A job that began before keeps its base commit and task. One `within` a pipeline uses the
    repository and the image of that. `known_as` are further columns of the row, which tell a run
    of a pipeline and its steps from a job.

    Raises:
        DatasetError, UsageError: the request cannot be carried out. Nothing was written.
        InfrastructureError: the repository or its forge cannot be reached.
    """
    known = rows.read(lake, request.job_id)
    try:
        source, mirror = (within.source, within.mirror) if within else _fetched(request, known)
        row = known or _begun(request, source, mirror, lake)
        files = repositories.CommitFiles(mirror, row["base_commit"])
    except RepositoryError as error:
        raise InfrastructureError(str(error)) from error
    publishing.check(request, source, row)
    project = detect(files)
    checks = checks_of(request, project)
    made_by = _recipe(request, project, files, row, within)
    image = job_images.name_of(row["base_commit"], made_by) if made_by else ""
    row = rows.update(
        lake,
        row,
        request=request.model_dump_json(),
        image=image,
        verify_command=checks.suite.command if checks else None,
        **known_as,
    )
    command, runner = (checks.suite.command, checks.suite.runner) if checks else ("", None)
    instance = repositories.instance(
        f"{_UNUSUAL.sub('-', source.name.rpartition('/')[2])}-{request.job_id}",
        source,
        row["base_commit"],
        row["statement"],
        image or "none",
        runner.command if runner and not runner.takes_paths else command,
        takes_paths=runner is None or runner.takes_paths,
    )
    experiment = _experiment(request, instance)
    follows = _follows(row, within)
    return Prepared(request, row, source, mirror, made_by, checks, instance, experiment, follows)


def _follows(row: Row, within: Prepared | None) -> bool:
    return within is not None and row["base_commit"] != within.row["base_commit"]


def _source(request: Request, known: Row | None) -> RepositorySource:
    """Return the repository of a job. Files of a local one may have changed since a job began."""
    if known is not None and str(known["source"]).startswith("/"):
        return RepositorySource(known["source"], known["repo"])
    return repositories.source(request.source, own_forge())


def _fetched(request: Request, known: Row | None) -> tuple[RepositorySource, Path]:
    source = _source(request, known)
    return source, repositories.fetched(source, cache_folder(), access_to(source))


def _recipe(
    request: Request,
    project: Project | None,
    files: repositories.CommitFiles,
    row: Row,
    within: Prepared | None,
) -> ImageRecipe | None:
    """Return the recipe of the image; None on the host.

    A later commit of a pipeline has the image of the pipeline's base, with that commit in it.
    """
    if request.environment != "docker":
        return None
    if within is None:
        kind, install = (project.kind, project.install) if project else (None, None)
        return job_images.recipe(files, kind, install, request.image)
    if not _follows(row, within):
        return within.recipe
    return ImageRecipe(base=within.row["image"], since=within.row["base_commit"])


def checks_of(request: Request, project: Project | None) -> Checks | None:
    """Return the commands of the verification, or None without one.

    Raises:
        UsageError: the project's own command is wanted, and nothing is detected.
    """
    if request.verify == "none":
        return None
    lint = project.lint if project else ()
    if request.verify != "auto":
        return Checks(custom(request.verify), lint, request.verify_timeout_s)
    if project is None or project.tests is None:
        raise UsageError(
            "no test command is detected in the repository: name one with --verify CMD, or "
            "publish unverified work with --verify none"
        )
    return Checks(project.tests, lint, request.verify_timeout_s)


def _begun(request: Request, source: RepositorySource, mirror: Path, lake: Lake) -> Row:
    """Return the first row of a job. It is written once everything about the job is known."""
    if request.revises:
        return _revised(request, source, mirror, lake)
    base = repositories.base(mirror, request.ref)
    title, statement = _task(request, source)
    return rows.new(
        request,
        source=source.address,
        repo=source.name,
        title=title,
        statement=statement,
        base_commit=base.commit,
        base_branch=base.branch,
        image="",
    )


def _task(request: Request, source: RepositorySource) -> tuple[str, str]:
    """Return the title and the text of the task."""
    if source.issue is None:
        return _first_line(request.task), request.task
    issue = forge.issue(source)
    text = f"{issue.title}\n\n{issue.body}".strip()
    if request.task.strip():
        text = f"{request.task.strip()}\n\nIssue #{source.issue}: {text}"
    return issue.title, text


def _revised(request: Request, source: RepositorySource, mirror: Path, lake: Lake) -> Row:
    """Return the first row of a job that continues another one at its commit."""
    parent = rows.find(lake, request.revises or "")
    commit = parent["commit"]
    if not commit:
        raise UsageError(f"job {parent['job_id']} made no commit that could be revised")
    known = git.git(mirror, "cat-file", "-t", commit, check=False)
    if known != "commit":
        raise UsageError(
            f"the commit {commit[:12]} of job {parent['job_id']} is not in this cache or on a "
            "branch of the repository: revise it where it was made"
        )
    statement = (
        f"{parent['statement']}\n\nA first change for this task is already committed. It was "
        f"reviewed, and this is what the reviewer says:\n\n{request.task}"
    )
    return rows.new(
        request,
        source=source.address,
        repo=source.name,
        title=parent["title"],
        statement=statement,
        base_commit=commit,
        base_branch=parent["base_branch"],
        branch=parent["branch"],
        image="",
    )


def _first_line(task: str) -> str:
    return " ".join(task.strip().splitlines()[0].split())[:200]


def _experiment(request: Request, instance: Instance) -> Experiment:
    """Return the experiment of a job, with a dataset file of its one instance."""
    dataset = cache_folder().absolute() / "jobs" / f"{request.job_id}.jsonl"
    git.make_folder(dataset.parent)
    dataset.write_text(f"{json.dumps(instance.row)}\n", encoding="utf-8")
    [loaded] = instances.load(str(dataset))
    assert loaded.digest == instance.digest, "the file holds the row"
    content: dict[str, Any] = {
        "name": experiment_of(request.job_id),
        "dataset": str(dataset),
        "environment": request.environment,
        "network": request.network,
        "resources": request.resources.model_dump(),
        "arms": [arm.model_dump(mode="json") for arm in request.arms],
        "model": request.model.model_dump(mode="json") if request.model else None,
        "budgets": {"experiment": {"usd": request.budget_usd}} if request.budget_usd else {},
        "evaluation_timeout_s": request.verify_timeout_s,
    }
    return declaration.parse(content, f"job {request.job_id}")


@asynccontextmanager
async def open_place(prepared: Prepared, store: Lake) -> AsyncIterator[Place]:
    """Yield the place of the job's workspaces, with its image built and kept during the block."""
    request = prepared.request
    environment: Environment = "host" if prepared.recipe is None else "docker"
    await refuse_excess(request.resources, [prepared.instance], environment)
    if prepared.recipe is None:
        yield Place("host")
        return
    images = await asyncio.to_thread(ImageStore, cache_folder())
    name = prepared.instance.image
    with images.held(name):
        image_id = await asyncio.to_thread(_build, images, prepared, store)
        yield Place(
            "docker",
            image_digest=image_id,
            network=request.network,
            resources=request.resources,
        )


def _build(images: ImageStore, prepared: Prepared, store: Lake) -> str:
    assert prepared.recipe is not None
    name = prepared.instance.image
    with images.fetching(name):
        is_new = not images.find([name])
        image_id = job_images.ensure(
            connect(), prepared.mirror, prepared.row["base_commit"], prepared.recipe
        )
    if is_new:
        ImageCache(store, images, None).built(name)
    return image_id
