"""The definition of a pipeline, as written in YAML or sent as JSON, and templates in its tasks."""

import re
from collections.abc import Mapping
from functools import cached_property
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from flows.display.errors import UsageError
from flows.experiments.declaration import from_yaml, in_one_line
from flows.jobs.request import MOST_CHARACTERS, JobSettings
from reports.quoting import is_blank

STEP_NAME = r"^[A-Za-z0-9][A-Za-z0-9_-]*$"
PIPELINE_NAME = r"^[a-z0-9][a-z0-9._-]*$"
MOST_STEPS = 100


class PipelineStep(BaseModel):
    """One step: a job that starts at the base plus the patches of the steps it depends on."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = Field(pattern=STEP_NAME, description="name of the step, used in templates")
    task: str = Field(
        min_length=1,
        max_length=MOST_CHARACTERS,
        description="what to do; {{steps.NAME.output.KEY}} is an output of an earlier step",
    )
    depends_on: list[str] = Field(default=[], description="steps whose changes it builds on")
    on_failure: Literal["stop", "continue"] = Field(
        default="stop",
        description="stop: no further step starts and nothing is published; continue: the others "
        "continue without its change",
    )
    arm: str | None = Field(
        default=None, description="name of one of the arms; default all of them compete"
    )
    approval: bool = Field(
        default=False, description="steps that depend on it wait until its patch is approved"
    )


class PipelineSchedule(BaseModel):
    """The times at which a deployed pipeline runs."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    cron: str = Field(description="five fields, such as `0 4 * * 1`")
    timezone: str = Field(default="UTC", description="such as Europe/Berlin")

    @model_validator(mode="after")
    def _is_a_schedule(self) -> Self:
        from prefect.client.schemas.schedules import CronSchedule

        try:
            CronSchedule(cron=self.cron, timezone=self.timezone)
        except ValueError:
            raise ValueError(
                f"{self.cron!r} in {self.timezone!r} is not a schedule: write five fields, such as "
                "`0 4 * * 1`, and a time zone such as Europe/Berlin"
            ) from None
        return self


class Pipeline(JobSettings):
    """Steps on one repository. The settings of a job hold for each step."""

    name: str = Field(
        pattern=PIPELINE_NAME,
        max_length=80,
        description="name of the pipeline; of several words, one is made with hyphens",
    )
    title: str = Field(
        default="", max_length=200, description="title of the pull request; default the name"
    )
    steps: list[PipelineStep] = Field(
        min_length=1, max_length=MOST_STEPS, description="steps, in any order"
    )
    schedule: PipelineSchedule | None = Field(
        default=None, description="when it runs once it is deployed; default never by itself"
    )

    @model_validator(mode="before")
    @classmethod
    def _shorten_name(cls, content: Any) -> Any:
        # A name of several words is the title, and the name of a deployment is made of it.
        if isinstance(content, dict) and isinstance(name := content.get("name"), str):
            short = re.sub(r"[^a-z0-9._-]+", "-", name.lower()).strip("-._")[:80]
            if " " in name and short:
                return {**content, "name": short, "title": content.get("title") or name[:200]}
        return content

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        names = [step.name for step in self.steps]
        if doubled := sorted({name for name in names if names.count(name) > 1}):
            raise ValueError(f"two steps are named {', '.join(doubled)}: rename one of them")
        arms = {arm.name for arm in self.arms}
        for step in self.steps:
            _check_names(step, set(names), arms)
            if is_blank(step.task):
                raise ValueError(f"the task of step {step.name} is empty: say what to do")
        if (length := len(self.statement)) > MOST_CHARACTERS:
            raise ValueError(
                f"the tasks have {length:,} characters together, and at most {MOST_CHARACTERS:,} "
                "are allowed"
            )
        for step in self.steps:
            upstream = self.upstream(step.name)
            for match in _TEMPLATE.finditer(step.task):
                used, _ = _read_use(match)
                if used in upstream:
                    continue
                problem = "does not exist"
                if used in names:
                    problem = "is not upstream of it: add it to depends_on"
                raise ValueError(f"step {step.name} uses an output of step {used}, which {problem}")
        return self

    @cached_property
    def ordered(self) -> list[PipelineStep]:
        """The steps, each after all that it depends on, otherwise in the order given.

        Raises:
            ValueError: they depend on each other in a cycle.
        """
        return [step for layer in self.layers for step in layer]

    @cached_property
    def layers(self) -> list[list[PipelineStep]]:
        """The steps by layer: the steps of a layer depend on earlier layers only.

        Raises:
            ValueError: as for `ordered`.
        """
        sorter = TopologicalSorter({step.name: step.depends_on for step in self.steps})
        try:
            sorter.prepare()
        except CycleError as error:
            raise ValueError(f"steps depend on each other: {' → '.join(error.args[1])}") from None
        layers = []
        while sorter.is_active():
            ready = set(sorter.get_ready())
            layers.append([step for step in self.steps if step.name in ready])
            sorter.done(*ready)
        return layers

    def step(self, name: str) -> PipelineStep:
        """Return the step of a name, which exists."""
        return next(step for step in self.steps if step.name == name)

    def upstream(self, name: str) -> set[str]:
        """Return the names of all steps that a step depends on, directly or not."""
        upstream: set[str] = set()
        waiting = list(self.step(name).depends_on)
        while waiting:
            other = waiting.pop()
            if other not in upstream:
                upstream.add(other)
                waiting += self.step(other).depends_on
        return upstream

    @property
    def statement(self) -> str:
        """The tasks of all steps, in order, under the title."""
        tasks = [
            f"{number}. {step.name}: {step.task}" for number, step in enumerate(self.ordered, 1)
        ]
        return "\n\n".join([self.title or self.name, *tasks])


def _check_names(step: PipelineStep, names: set[str], arms: set[str]) -> None:
    if step.name in step.depends_on:
        raise ValueError(f"step {step.name} depends on itself")
    if unknown := sorted(set(step.depends_on) - names):
        raise ValueError(
            f"step {step.name} depends on {', '.join(unknown)}, which does not exist: the steps "
            f"are {', '.join(sorted(names))}"
        )
    if step.arm is not None and step.arm not in arms:
        raise ValueError(
            f"step {step.name} names arm {step.arm!r}: the arms are {', '.join(sorted(arms))}"
        )


def parse(content: object, source: str) -> Pipeline:
    """Return a checked definition. `source` names its origin in errors.

    Raises:
        UsageError: it is invalid; the message is one line.
    """
    try:
        return Pipeline.model_validate(content)
    except ValidationError as error:
        raise UsageError(f"{source}: {in_one_line(error)}") from None


def load(path: Path) -> Pipeline:
    """Return the definition in a YAML file.

    Raises:
        UsageError: there is no such file, it is not YAML, or its content is invalid.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise UsageError(f"{path} is not text in UTF-8") from None
    return parse(from_yaml(text, str(path)), str(path))


KEYS = {
    "summary": "what the step's arm says about its work",
    "patch": "its change, as a diff",
    "files": "the changed files, one in a line",
    "verdict": "repaired, nothing_broke, not_tested or regressed",
    "reason": "the reason for the verdict",
    "arm": "the arm whose patch was chosen",
    "commit": "the commit of the patch",
    "job": "the id of the step's job",
}
"""The outputs of a step, with their meanings."""

_TEMPLATE = re.compile(r"\{\{\s*steps\.(?P<text>[^{}]*?)\s*\}\}")
_USE = re.compile(r"(?P<step>[A-Za-z0-9_-]+)\.output\.(?P<key>[A-Za-z0-9_-]+)")


class MissingOutput(Exception):
    """A step left no output that its task could use. The step that uses it fails."""


def _read_use(match: re.Match[str]) -> tuple[str, str]:
    use = _USE.fullmatch(match["text"])
    if use is None:
        raise ValueError(f"{match[0]} is not a template: write {{{{steps.NAME.output.KEY}}}}")
    if use["key"] not in KEYS:
        raise ValueError(f"{match[0]}: steps have no output {use['key']!r} but {', '.join(KEYS)}")
    return use["step"], use["key"]


def fill(task: str, outputs: Mapping[str, Mapping[str, str | None]]) -> str:
    """Return a task with outputs in place of its templates.

    Raises:
        MissingOutput: a step has no such output, for example as it failed, or the task is too long
            with it.
    """

    def output(match: re.Match[str]) -> str:
        step, key = _read_use(match)
        value = outputs.get(step, {}).get(key)
        if value is None:
            raise MissingOutput(f"step {step} left no {key}, which its task needs")
        return value

    whole = _TEMPLATE.sub(output, task)
    if len(whole) > MOST_CHARACTERS:
        raise MissingOutput(
            f"its task has {len(whole):,} characters with the outputs of other steps, and at most "
            f"{MOST_CHARACTERS:,} are allowed"
        )
    return whole
