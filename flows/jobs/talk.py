"""The beginning of a chat, and its cell, which any worker finds again."""

import asyncio
import secrets
import shutil
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal, Self

from pydantic import ConfigDict, Field, model_validator

from agent.journal import Attempt
from agent.workspaces.host import make_empty_repository
from flows.display.errors import UsageError
from flows.experiments import declaration, forking, records
from flows.experiments.arms import ArmSpec
from flows.experiments.cell_state import find_unsolved
from flows.experiments.cells import Cell, Place
from flows.experiments.declaration import Experiment
from flows.experiments.earlier import resume_attempts
from flows.experiments.forms import Form
from flows.experiments.keys import attempt_id_of
from flows.experiments.plan import declare
from flows.experiments.plan import prepare as planned
from flows.experiments.probe import refuse_unusable_models
from flows.experiments.secret_kinds import ReadableValues
from flows.jobs import preparing, rows
from flows.jobs.preparing import Prepared
from flows.jobs.request import Request
from flows.storage import journals
from flows.storage.images import cache_folder
from flows.storage.job_names import job_of
from flows.storage.lake import Lake
from reports.quoting import is_blank


class Talk(Form, ReadableValues):
    """The beginning of a chat. It holds no token: workers take that from their environment."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    repo: str | None = Field(
        default=None, description="address or path of a repository, or owner/name"
    )
    instance: str | None = Field(default=None, description="id of an instance of the dataset")
    dataset: str = Field(default="bundled", description="dataset of the instance")
    split: str = Field(default="test", description="split of the dataset")
    message: str = Field(
        default="", description="the first message, for a repository; an instance has its own task"
    )
    arm: ArmSpec = Field(description="the arm that answers, with its model")
    ref: str | None = Field(
        default=None, description="branch, tag or commit of the repository to start at"
    )
    image: str | None = Field(default=None, description="image; default the repository's own")
    environment: Literal["auto", "docker", "host"] = Field(
        default="auto", description="auto: docker if a daemon answers, else host"
    )
    network: bool = Field(default=False, description="give containers network access")
    budget_usd: float | None = Field(default=None, gt=0, description="US dollars for the chat")
    id: str = Field(
        default_factory=lambda: secrets.token_hex(5),
        pattern=r"^[0-9a-f]{6,32}$",
        description="id of the chat; default a new one",
    )

    @model_validator(mode="after")
    def _is_about_one_thing(self) -> Self:
        if self.repo is not None and self.instance is not None:
            raise ValueError("name a repository or an instance, and not both")
        if self.instance is None and is_blank(self.message):
            raise ValueError("the first message is empty: say what to do")
        return self

    def request(self) -> Request:
        """Return the chat in a repository as a job, whose patch is published on request only."""
        return Request(
            source=self.repo or str(open_empty_repository()),
            task=self.message,
            ref=self.ref,
            arms=[self.arm],
            verify="none",
            budget_usd=self.budget_usd,
            image=self.image,
            environment="host" if self.environment == "host" else "docker",
            network=self.network,
            id=self.id,
        )

    def experiment(self) -> Experiment:
        """Return the chat about an instance as an experiment of one cell."""
        budgets = {"experiment": {"usd": self.budget_usd}} if self.budget_usd else {}
        content = {
            "name": f"chat-{self.id}",
            "dataset": self.dataset,
            "split": self.split,
            "select": {"ids": [self.instance]},
            "environment": self.environment,
            "network": self.network,
            "arms": [self.arm.model_dump(mode="json")],
            "budgets": budgets,
        }
        return declaration.parse(content, "chat")


def open_empty_repository() -> Path:
    """Return the repository of all chats without one, which has an empty commit."""
    folder = cache_folder() / "empty"
    if not folder.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(dir=folder.parent) as made:
            make_empty_repository(Path(made))
            with suppress(OSError):  # another process was faster
                shutil.copytree(made, folder)
    return folder


@dataclass(frozen=True)
class Opened:
    """The cell of an attempt, which a worker can work on."""

    cell: Cell
    job: Prepared | None
    """The job that the cell belongs to; None for a cell of another experiment."""

    @property
    def attempt_id(self) -> str:
        return attempt_id_of(self.cell)


async def begin_chat(talk: Talk, lake: Lake) -> str:
    """Declare the attempt of a new chat. Return its id.

    Raises:
        DatasetError, UsageError: there is no such repository or instance.
        InfrastructureError: the repository cannot be reached.
    """
    if talk.instance is not None:
        plan = await planned(talk.experiment(), str(lake.root))
        opened = Opened(plan.cells[0], None)
    else:
        opened = await _open_job(talk.request(), talk.arm.name, lake)
        assert opened.job is not None
        await asyncio.to_thread(
            rows.update, lake, opened.job.row, state="chat", attempt_id=opened.attempt_id
        )
    journal = await asyncio.to_thread(journals.open_journal, lake)
    attempt = records.get_journal_attempt(opened.cell, opened.attempt_id)
    await asyncio.to_thread(journal.start, attempt)
    return opened.attempt_id


async def open_cell(attempt: Attempt, lake: Lake) -> Opened:
    """Return the cell of an attempt of any experiment or job.

    Raises:
        DatasetError, UsageError: what it was declared with is gone, or has changed since.
        InfrastructureError: its repository cannot be reached.
    """
    job_id = job_of(attempt.experiment)
    job = await asyncio.to_thread(rows.read, lake, job_id) if job_id else None
    if job is not None:
        opened = await _open_job(Request.model_validate_json(job["request"]), attempt.arm, lake)
    else:
        declared = await asyncio.to_thread(forking.load_declaration, lake, attempt)
        plan = await planned(declared, str(lake.root))
        opened = Opened(plan.cell(attempt.arm, attempt.instance_id, attempt.repeat), None)
    if opened.attempt_id != attempt.attempt_id:
        raise UsageError(
            f"attempt {attempt.attempt_id} was declared otherwise: its experiment "
            f"{attempt.experiment!r} has changed since"
        )
    return opened


async def _open_job(request: Request, arm: str, lake: Lake) -> Opened:
    prepared = await asyncio.to_thread(preparing.prepare, request, lake)
    experiment, instance = prepared.experiment, prepared.instance
    place = Place(request.environment, network=request.network, resources=request.resources)
    await asyncio.to_thread(journals.claim, lake, experiment.name)
    declare(experiment, [instance], place.environment, lake)
    cell = Cell(experiment, experiment.arm(arm), instance, 0, place)
    [cell] = await asyncio.to_thread(resume_attempts, [cell], lake)
    unsolved = await asyncio.to_thread(find_unsolved, [cell], lake)
    await refuse_unusable_models(experiment, unsolved)
    return Opened(cell, prepared)
