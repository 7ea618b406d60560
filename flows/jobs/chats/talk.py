"""A chat as it is begun: a repository or an instance, an arm, and the first message."""

import secrets
from typing import Literal, Self

from pydantic import ConfigDict, Field, model_validator

from flows.experiments import declaration
from flows.experiments.arms import ArmSpec
from flows.experiments.declaration import Experiment
from flows.experiments.secret_kinds import ReadableValues
from flows.jobs.request import Request
from reports.visible import is_blank


class Talk(ReadableValues):
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
        default=None, description="branch, tag or commit of the repository to begin at"
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
        if (self.repo is None) == (self.instance is None):
            raise ValueError("name a repository or an instance, and not both")
        if self.repo is not None and is_blank(self.message):
            raise ValueError("the first message is empty: say what to do")
        return self

    def request(self) -> Request:
        """Return the chat in a repository as a job, whose patch is published on request only."""
        assert self.repo is not None, "it is about a repository"
        return Request(
            source=self.repo,
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
