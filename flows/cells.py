"""A cell: experiment × arm × instance × repeat, the unit that is cached and retried."""

import hashlib
import json
from dataclasses import dataclass
from typing import Any

from agent.types import Task
from agent.workspaces.protocol import Environment
from eval.types import Instance
from flows.experiment import ArmSpec, Experiment


@dataclass(frozen=True)
class Place:
    """Where an instance is worked on and graded, decided before the run."""

    environment: Environment
    image_digest: str | None = None
    """Image id in the daemon; None on the host, and where the image is missing."""
    network: bool = False
    """Whether a container reaches the network. A host workspace always does."""


@dataclass(frozen=True)
class Cell:
    """One cell of a plan, with its place already decided."""

    experiment: Experiment
    arm: ArmSpec
    instance: Instance
    repeat: int
    place: Place

    @property
    def label(self) -> str:
        """How people call the cell: in logs, run names and tables."""
        suffix = f" #{self.repeat}" if self.experiment.repeats > 1 else ""
        return f"{self.arm.name} · {self.instance.instance_id}{suffix}"

    @property
    def partition(self) -> tuple[str, str]:
        """Experiment and arm: the folder of every table that the cell's rows belong to."""
        return self.experiment.name, self.arm.name

    @property
    def seed(self) -> int:
        """Seed of the attempt: other arms, instances and repeats draw independently."""
        parts = [self.experiment.seed, self.arm.name, self.instance.instance_id, self.repeat]
        return int.from_bytes(hashlib.sha256(json.dumps(parts).encode()).digest()[:6], "big")

    @property
    def task(self) -> Task:
        """The instance as the agent gets it."""
        return Task(
            id=self.instance.instance_id,
            statement=self.instance.problem_statement,
            base_commit=self.instance.base_commit,
            reference_patch=self.instance.patch,
        )


@dataclass(frozen=True)
class Submission:
    """A patch that waits for its verdict, from an attempt of ours or from elsewhere."""

    experiment: str
    arm: str
    instance: Instance
    repeat: int
    attempt_id: str
    patch: str
    place: Place
    timeout_s: float
    """Seconds for the evaluation script."""

    @property
    def label(self) -> str:
        """How people call the grading."""
        return f"grade {self.arm} · {self.instance.instance_id}"


def plan(experiment: Experiment, instances: list[Instance], places: dict[str, Place]) -> list[Cell]:
    """Every cell of an experiment, instance by instance, so that pairs finish together.

    `places` gives the place of each instance by its id.
    """
    return [
        Cell(experiment, arm, instance, repeat, places[instance.instance_id])
        for repeat in range(experiment.repeats)
        for instance in instances
        for arm in experiment.arms
    ]


def canonical_digest(value: Any) -> str:
    """SHA-256 of a value as canonical JSON."""
    return hashlib.sha256(json.dumps(value, sort_keys=True, default=str).encode()).hexdigest()
