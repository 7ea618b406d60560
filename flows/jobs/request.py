"""A job as submitted: a repository, a task, arms, and the use of the patch."""

import os
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from contextvars import ContextVar
from typing import Annotated, Literal, Self

from pydantic import AliasChoices, ConfigDict, Field, model_validator

from agent.arms import ARMS
from agent.models.spec import ModelSpec
from eval.digests import canonical_digest
from eval.repositories import Access, RepositorySource
from flows.display.errors import UsageError
from flows.experiments.arms import ArmSpec
from flows.experiments.forms import Form
from flows.experiments.resources import Resources
from flows.experiments.secret_kinds import ReadableValues
from flows.jobs.forges import kinds
from reports.quoting import is_blank

Publish = Literal["pull_request", "branch", "patch"]

FORGE, API, TOKEN = "DURABENCH_FORGE", "DURABENCH_FORGE_API", "DURABENCH_FORGE_TOKEN"

_token: ContextVar[str] = ContextVar("forge_token", default="")
"""The token of the current job; '' for the token of the environment."""

OF_BENCHMARKS = ("gold", "null")
"""Agents that stand for the known patch of a task, and for none. A job has no known patch."""

MOST_CHARACTERS = 100_000
"""Characters of a task. A longer one leaves too little of a model's context."""


class JobSettings(Form, ReadableValues):
    """The settings that jobs and pipelines share. They hold no token: workers have one."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    source: str = Field(
        validation_alias=AliasChoices("source", "repo_url"),
        min_length=1,
        description="address or path of a repository, owner/name, or the address of an issue",
    )
    ref: str | None = Field(
        default=None, description="branch, tag or commit to start at; default the default branch"
    )
    arms: list[ArmSpec] = Field(min_length=1, description="arms that solve the task")
    model: ModelSpec | None = Field(default=None, description="model of arms that name none")
    publish: Publish = Field(
        default="patch", description="what is made of the patch: pull_request, branch or patch"
    )
    budget_usd: float | None = Field(
        default=None, gt=0, description="US dollars for all arms, of each step in a pipeline"
    )
    verify: str = Field(
        default="auto",
        min_length=1,
        description="command that runs the tests; auto: the project's own; none: no verification",
    )
    verify_timeout_s: float = Field(default=1800, gt=0, description="seconds for one run of it")
    approve: bool = Field(default=False, description="wait for approval before publishing")
    image: str | None = Field(default=None, description="image; default the repository's own")
    environment: Literal["docker", "host"] = Field(
        default="docker", description="host: run the repository's code on this machine, unprotected"
    )
    network: bool = Field(default=False, description="give containers network access")
    resources: Resources = Field(
        default_factory=Resources,
        description="limits of each container; default the limits of a run",
    )
    token_block: str | None = Field(
        default=None,
        pattern=r"^[a-z0-9-]+$",
        description="name of the Prefect Secret block with the forge's token; default "
        "DURABENCH_FORGE_TOKEN of the worker",
    )

    @model_validator(mode="after")
    def _arms_can_work(self) -> Self:
        names = [arm.name for arm in self.arms]
        if len(set(names)) < len(names):
            raise ValueError("two arms have the same name")
        for arm in self.arms:
            if arm.agent in OF_BENCHMARKS:
                raise ValueError(f"arm {arm.name!r}: the agent {arm.agent} is for benchmarks only")
            if ARMS[arm.agent].needs_model and (arm.model or self.model) is None:
                raise ValueError(f"arm {arm.name!r} needs a model: name one with --model")
        return self

    @property
    def needs_litellm(self) -> bool:
        """True if LiteLLM answers one of the arms."""
        specs = [arm.model or self.model for arm in self.arms if ARMS[arm.agent].needs_model]
        return any(spec is not None and spec.provider == "litellm" for spec in specs)


class Request(JobSettings):
    """A job."""

    task: Annotated[str, Field(max_length=MOST_CHARACTERS)] = Field(
        default="",
        description="what to do; default the text of the issue, or the comments of reviewers",
    )
    revises: str | None = Field(default=None, description="id of the job to continue")
    asked_on: str | None = Field(
        default=None,
        pattern=r"/(issues|pull)/\d+$",
        description="address of the issue or pull request that gets a comment if the job fails",
    )
    id: str | None = Field(
        default=None, pattern=r"^[0-9a-f]{6,32}$", description="id of the job; default a digest"
    )

    @model_validator(mode="after")
    def _has_a_task(self) -> Self:
        if is_blank(self.task) and not self.revises and "/issues/" not in self.source:
            raise ValueError("the task is empty: say what to do, or give the address of an issue")
        return self

    @property
    def title(self) -> str:
        """The first line of the task, or the address of an issue that has no more."""
        lines = [*self.task.strip().splitlines(), self.source]
        return " ".join(lines[0].split())[:200]

    @property
    def job_id(self) -> str:
        """The id, the same for the same request, so that submitting it again continues the job."""
        if self.id:
            return self.id
        settings = {
            "id",
            "approve",
            "publish",
            "budget_usd",
            "resources",
            "token_block",
            "asked_on",
        }
        return canonical_digest(self.model_dump(mode="json", exclude=settings))[:10]


def forge() -> str:
    """Return the address of the forge whose token the environment has."""
    return (os.environ.get(FORGE) or kinds.GITHUB).rstrip("/")


def kind_of(source: RepositorySource) -> kinds.Kind:
    """Return which forge a repository is on. It is asked once if its address does not say so.

    Raises:
        InfrastructureError: it does not answer.
    """
    return kinds.find_kind(source.web or kinds.GITHUB, os.environ.get(API))


def api_of(source: RepositorySource) -> str:
    """Return the address of the REST API of a repository's forge."""
    if api := os.environ.get(API):
        return api.rstrip("/")
    return kinds.find_api(source.web or kinds.GITHUB)


def access_to(source: RepositorySource) -> Access:
    """Return the access to a repository.

    The token is for the forge of the environment only. The usual variable of a public forge is
    also for that forge.
    """
    is_ours = source.web == forge()
    if is_ours and (token := _token.get() or os.environ.get(TOKEN, "")):
        return Access(token)
    usual = {kind: os.environ.get(name, "") for kind, name in kinds.VARIABLES.items()}
    if any(usual.values()) and (is_ours or source.web in kinds.PUBLIC):
        return Access(usual[kind_of(source)])
    return Access()


@asynccontextmanager
async def forge_token(settings: JobSettings) -> AsyncIterator[None]:
    """Use the token in the Secret block that a job names during the block.

    Without a name, the token of the environment counts.

    Raises:
        UsageError: there is no such block, or it does not contain text.
    """
    if settings.token_block is None:
        yield
        return
    from prefect.blocks.system import Secret

    name = settings.token_block
    try:
        block: Secret[str] = await Secret.aload(name)
    except ValueError:
        raise UsageError(
            f"the Prefect server has no Secret block {name!r}: create it under Blocks in its UI, "
            "or leave token_block out and set DURABENCH_FORGE_TOKEN"
        ) from None
    token = block.value.get_secret_value()
    if not isinstance(token, str) or not token:
        raise UsageError(f"the Secret block {name!r} must contain the token as text")
    before = _token.set(token)
    try:
        yield
    finally:
        _token.reset(before)


def slug(title: str) -> str:
    """Return a title as the readable part of a branch name."""
    words = re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")
    return words[:40].rstrip("-") or "task"
