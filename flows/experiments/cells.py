"""A cell: experiment × arm × instance × repeat, the unit that is cached and retried."""

import hashlib
import json
from dataclasses import dataclass, replace
from typing import Any

from agent.types import Task
from agent.workspaces.protocol import Environment
from eval.types import Instance
from flows.experiments.declaration import ArmSpec, Experiment


@dataclass(frozen=True)
class Place:
    """Where an instance is worked on and graded."""

    environment: Environment
    image_digest: str | None = None
    """Image id in the daemon; None on the host, and until the image is here."""
    network: bool = False
    """Whether a container reaches the network. A host workspace always does."""
    problem: str = ""
    """Why the image cannot be had; a workspace is refused with these words."""


@dataclass(frozen=True)
class Cell:
    """One cell of a plan."""

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

    def at(self, place: Place) -> "Cell":
        """The same cell in another place."""
        return replace(self, place=place)

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

    def at(self, place: Place) -> "Submission":
        """The same patch in another place."""
        return replace(self, place=place)

    @property
    def label(self) -> str:
        """How people call the grading."""
        return f"grade {self.arm} · {self.instance.instance_id}"


def plan(experiment: Experiment, instances: list[Instance], place: Place) -> list[Cell]:
    """Every cell of an experiment, instance by instance, so that pairs finish together.

    All instances have their first attempts before any has a second, so that a run which a
    budget stops is as wide as it can be. Not where only so many images are kept: there the
    repeats of an instance come together, or every image would have to come once per repeat.
    """
    rounds = [(repeat, i) for repeat in range(experiment.repeats) for i in instances]
    if experiment.images.keep_gb is not None:
        rounds = [(repeat, i) for i in instances for repeat in range(experiment.repeats)]
    return [
        Cell(experiment, arm, instance, repeat, place)
        for repeat, instance in rounds
        for arm in experiment.arms
    ]


def canonical_digest(value: Any) -> str:
    """SHA-256 of a value as canonical JSON."""
    return hashlib.sha256(json.dumps(value, sort_keys=True, default=str).encode()).hexdigest()
