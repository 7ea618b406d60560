"""The repository of a job, its project and image, and the experiment that solves its task."""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Callable
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
from flows.display.terminal import say
from flows.experiments import declaration
from flows.experiments.cells import Place
from flows.experiments.declaration import Experiment
from flows.experiments.resources import refuse_excess
from flows.jobs import agent_rules, forge, publishing, rows
from flows.jobs.request import MOST_CHARACTERS, Request, access_to
from flows.jobs.request import forge as forge_address
from flows.jobs.verification import Checks
from flows.server.flow_run import find_own
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
    """True if it starts at the result of earlier steps of a pipeline, in their image."""
    rules: tuple[str, ...]
    """The files with the repository's rules for agents."""


def prepare(
    request: Request, lake: Lake, within: Prepared | None = None, **known_as: str
) -> Prepared:
    """Fetch the repository, fix the job's base commit and task, and write its row.

    A job that has started keeps its base commit and task. A step `within` a pipeline uses the
    pipeline's repository and image. `known_as` are further columns of the row, which distinguish a
    run of a pipeline and its steps from a job.

    Raises:
        DatasetError, UsageError: the request cannot be fulfilled. Nothing was written.
        InfrastructureError: the repository or its forge cannot be reached.
    """
    stored = rows.read(lake, request.job_id)
    if stored is not None and not stored["base_commit"]:  # it could not start
        stored = None
    try:
        if within:
            source, mirror = within.source, within.mirror
        else:
            # Files of a local repository may have changed since the job started.
            if stored is not None and str(stored["source"]).startswith("/"):
                source = RepositorySource(stored["source"], stored["repo"])
            else:
                source = repositories.source(request.source, forge_address())
            say(f"job {request.job_id}: fetching {source.address}")
            mirror = repositories.fetch_mirror(source, cache_folder(), access_to(source))
        row = stored or _first_row(request, source, mirror, lake)
        files = repositories.CommitFiles(mirror, row["base_commit"])
    except RepositoryError as error:
        raise InfrastructureError(str(error)) from error
    publishing.check(request, source, row, mirror)
    project = detect(files)
    checks = checks_of(request, project)
    follows = within is not None and row["base_commit"] != within.row["base_commit"]
    made_by: ImageRecipe | None = None
    if request.environment == "docker" and within is None:
        kind, install = (project.kind, project.install) if project else (None, None)
        made_by = job_images.recipe(files, kind, install, request.image)
    elif request.environment == "docker" and within is not None:
        made_by = within.recipe
        if follows:  # the image of the pipeline's base, with the later commit in it
            made_by = ImageRecipe(base=within.row["image"], since=within.row["base_commit"])
    image = job_images.name_of(row["base_commit"], made_by) if made_by else ""
    row = rows.update(
        lake,
        row,
        request=request.model_dump_json(),
        image=image,
        verify_command=checks.command if checks else None,
        **known_as,
    )
    command, runner = (checks.suite.command, checks.suite.runner) if checks else ("", None)
    rules = agent_rules.read_rules(files)
    instance = repositories.instance(
        f"{_UNUSUAL.sub('-', source.name.rpartition('/')[2])}-{request.job_id}",
        source,
        row["base_commit"],
        agent_rules.add_rules(row["statement"], rules),
        image or "none",
        runner.command if runner and not runner.takes_paths else command,
        takes_paths=runner is None or runner.takes_paths,
    )
    experiment = _experiment(request, instance)
    return Prepared(
        request, row, source, mirror, made_by, checks, instance, experiment, follows, tuple(rules)
    )


def checks_of(request: Request, project: Project | None) -> Checks | None:
    """Return the commands of the verification, or None without one.

    Raises:
        UsageError: the project's own command is wanted, and nothing is detected.
    """
    if request.verify == "none":
        return None
    lint = project.lint if project else ()
    if request.verify != "auto":
        suite = custom(request.verify, project.tests if project else None)
        return Checks(suite, lint, request.verify_timeout_s)
    if project is None or project.tests is None:
        raise UsageError(
            "no test command is detected in the repository: name one with --verify CMD, or "
            "publish unverified work with --verify none"
        )
    return Checks(project.tests, lint, request.verify_timeout_s, project.others)


def _first_row(request: Request, source: RepositorySource, mirror: Path, lake: Lake) -> Row:
    """Return the first row of a job. It is written once everything about the job is known."""
    if request.revises:
        details = _revise(request, source, mirror, lake)
    else:
        base = repositories.base(mirror, request.ref)
        if source.issue is None:
            title, statement = request.title, request.task
        else:
            title, text = forge.read_issue(source)
            statement = f"{title}\n\n{text}".strip()
            if request.task.strip():
                statement = f"{request.task.strip()}\n\nIssue #{source.issue}: {statement}"
        details = {
            "title": title,
            "statement": statement,
            "base_commit": base.commit,
            "base_branch": base.branch,
        }
    run = find_own()
    ordered = {"submitted_at": run.created} if run and run.created else {}
    known = {"source": source.address, "repo": source.name, "image": "", **details, **ordered}
    return rows.new(request, **known)


def _revise(request: Request, source: RepositorySource, mirror: Path, lake: Lake) -> Row:
    """Return the columns of a job that continues another one: on its branch, or at its commit."""
    parent = rows.find(lake, request.revises or "")
    has_failed = parent["state"] == "failed" and not parent["commit"]
    commit = parent["base_commit"] if has_failed or rows.is_answer(parent) else parent["commit"]
    if not commit:
        raise UsageError(f"job {parent['job_id']} made no commit that could be revised")
    if parent["branch"] and not (commit := publishing.read_branch(source, parent, mirror)):
        raise UsageError(f"the branch {parent['branch']} was removed: run a new job")
    comments = publishing.read_comments(source, parent)
    text = "\n\n".join(filter(None, [request.task.strip(), *comments]))[:MOST_CHARACTERS]
    if not text:
        raise UsageError("the pull request has no new comments: say what to change")
    if git.git(mirror, "cat-file", "-t", commit, check=False) != "commit":
        raise UsageError(
            f"the commit {commit[:12]} of job {parent['job_id']} is not in this cache or on a "
            "branch of the repository: revise it where it was made"
        )
    done = "A first change for this task is already committed. It was reviewed, and this"
    if has_failed:
        done = f"A first try has failed: {parent['detail']}.\n\nThis"
    elif rows.is_answer(parent):
        answer = json.loads(parent["verification"]).get("answer") or "nothing"
        done = f"The answer so far, without a change, is:\n\n{answer}\n\nThis"
    statement = f"{parent['statement']}\n\n{done} is what the reviewer says:\n\n{text}"
    return {
        "title": parent["title"],
        "statement": statement,
        "base_commit": commit,
        "base_branch": parent["base_branch"],
        "branch": parent["branch"],
        "pull_request": parent["pull_request"],
    }


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
async def open_place(
    prepared: Prepared, store: Lake, report: Callable[[str], None] = lambda work: None
) -> AsyncIterator[Place]:
    """Yield the place of the job's workspaces, with its image built and kept during the block.

    `report` is called with the name of work that takes long.
    """
    request = prepared.request
    environment: Environment = "host" if prepared.recipe is None else "docker"
    await refuse_excess(request.resources, [prepared.instance], environment)
    if prepared.recipe is None:
        yield Place("host")
        return
    images = await asyncio.to_thread(ImageStore, cache_folder())
    name = prepared.instance.image
    with images.hold(name):
        if not images.find([name]):
            report(f"building the image {name}")
        image_id = await asyncio.to_thread(_ensure_image, images, prepared, store)
        yield Place(
            "docker",
            image_digest=image_id,
            network=request.network,
            resources=request.resources,
        )


def _ensure_image(images: ImageStore, prepared: Prepared, store: Lake) -> str:
    assert prepared.recipe is not None
    name = prepared.instance.image
    with images.fetching(name):
        is_new = not images.find([name])
        image_id = job_images.ensure(
            connect(), prepared.mirror, prepared.row["base_commit"], prepared.recipe
        )
    if is_new:
        ImageCache(store, images, None).record_build(name)
    return image_id
