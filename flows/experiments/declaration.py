"""The declaration of an experiment, as written in YAML and shown in Prefect's forms."""

import json
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import yaml
from pydantic import (
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    model_validator,
)

from agent.arms import ARMS
from agent.models.pacing import RateLimit
from agent.models.spec import ModelSpec
from eval.selection import Selection
from flows.display.errors import UsageError
from flows.experiments.arms import ArmSpec, Declared, derive_arms
from flows.experiments.forms import RULES, Form
from flows.experiments.gates import Gates
from flows.experiments.resources import Resources
from flows.experiments.secret_kinds import ReadableValues
from flows.storage.lake import NAME


class StopWhen(Declared):
    """When an experiment ends early."""

    primary: Literal["decided"] = Field(
        description="decided: as soon as the evidence on the primary comparison is enough"
    )
    alpha: float = Field(
        default=0.05,
        gt=0,
        lt=0.5,
        description="share of experiments with equal arms that may be decided wrongly, however "
        "often is looked",
    )


BUILT_IN = Path(__file__).parent

NOT_DECLARED = {
    "dataset": "the selected rows are compared by their digest",
    "split": "as the dataset",
    "select": "as the dataset",
    "environment": "the environment that was decided is compared",
    "concurrency": "changes when a cell runs, not what it does",
    "execution": "changes who runs a cell, not what is run",
    "rate_limits": "changes when a model is asked, not what it answers",
    "images": "changes when an image is on the machine, not what is in it",
    "audit": "adds a second grading; the first remains the official verdict",
    "gates": "judge the results, and change nothing of them",
}
"""Fields that may change between runs of the same declaration, with the reason. All others define
the experiment. So do budgets, the time limit of the tests and the preflight, because a cell that
one of them stops counts as not resolved. `reports/sql/marts/source.sql` has the same list."""


class Budget(Declared):
    """Spending limit. A call that could exceed it is not sent."""

    usd: float | None = Field(default=None, gt=0, description="US dollars")
    calls: int | None = Field(default=None, gt=0, description="model calls")


class Images(Declared):
    """When images are pulled and removed. Images that already existed are never removed."""

    keep_gb: float | None = Field(
        default=None,
        gt=0,
        description="gigabytes (10^9 bytes) of pulled and built images to keep; the least recently "
        "needed are removed first; default all are kept",
    )
    ahead: int = Field(
        default=2,
        ge=0,
        le=64,
        description="number of instances whose images are prepared before their cells start",
    )


class DeclaredComparison(Declared):
    """Two arms to compare. The order of the arms does not matter."""

    baseline: str = Field(description="name of the arm to compare with")
    candidate: str = Field(description="name of the arm whose worth is tested")

    @model_validator(mode="after")
    def _of_two_arms(self) -> Self:
        if self.baseline == self.candidate:
            raise ValueError(f"{self.baseline!r} is compared with itself: name two arms")
        return self

    @property
    def arms(self) -> frozenset[str]:
        """Names of both arms."""
        return frozenset({self.baseline, self.candidate})


class Primary(DeclaredComparison):
    """The comparison that the experiment was designed for."""

    margin: float | None = Field(
        default=None,
        gt=0,
        lt=1,
        description="largest loss of resolution at which the candidate still counts as not worse, "
        "as a share: 0.05 is five percentage points",
    )


class Experiment(Form, ReadableValues, Declared):
    """The arms, instances and settings of an experiment, declared before any result exists."""

    model_config = ConfigDict(json_schema_extra={"dependentSchemas": RULES})

    name: str = Field(
        pattern=NAME, description="name of the results; running the same name again resumes it"
    )
    dataset: str = Field(
        default="bundled",
        description="`bundled`, a Hugging Face id, a .parquet/.jsonl/.json file or a task repo",
    )
    split: str = Field(default="test", description="split of a Hugging Face dataset or task repo")
    select: Selection = Field(
        default_factory=Selection, description="instances to run; default all"
    )
    environment: Literal["auto", "docker", "host"] = Field(
        default="auto", description="auto: docker if a daemon answers, else host"
    )
    arms: Annotated[list[ArmSpec], BeforeValidator(derive_arms)] = Field(
        min_length=1, description="arms to compare, in this order"
    )
    model: ModelSpec | None = Field(default=None, description="model of every arm that names none")
    repeats: int = Field(default=1, ge=1, le=100, description="attempts per arm and instance")
    seed: int = Field(default=0, description="seed of everything random in the attempts")
    concurrency: int = Field(default=4, ge=1, le=256, description="cells at the same time")
    evaluation_timeout_s: float = Field(
        default=1800, gt=0, description="seconds for the tests of one prediction"
    )
    budgets: dict[Literal["attempt", "arm", "experiment"], Budget] = Field(
        default_factory=dict, description="limits per attempt, per arm and for the whole experiment"
    )
    execution: Literal["local", "distributed"] = Field(
        default="local",
        description="distributed: flow runs of the `shard/shard` deployment run the cells, on any "
        "worker",
    )
    rate_limits: dict[str, RateLimit] = Field(
        default_factory=dict,
        description="requests and tokens per minute by LiteLLM provider or model string, over "
        "all workers and experiments of the journal",
    )
    network: bool = Field(
        default=False, description="give containers network access, as some eval scripts need"
    )
    resources: Resources = Field(
        default_factory=Resources,
        description="limits of each container; default what the rows ask for",
    )
    images: Images = Field(
        default_factory=Images, description="which images to keep, and how many to prepare ahead"
    )
    preflight: bool = Field(
        default=False, description="check the images first, and skip instances whose image fails"
    )
    audit: bool = Field(
        default=False, description="grade every patch twice, and doubt verdicts that differ"
    )
    primary: Primary | None = Field(
        default=None, description="the primary comparison, declared in advance"
    )
    family: list[DeclaredComparison] = Field(
        default_factory=list,
        description="further declared comparisons; all others are exploratory",
    )
    stop_when: StopWhen | None = Field(
        default=None, description="when to end before all cells are done; default never"
    )
    willingness_to_pay: float | None = Field(
        default=None,
        gt=0,
        allow_inf_nan=False,
        description="US dollars that one more resolved instance is worth, for the net benefit",
    )
    gates: Gates = Field(
        default_factory=dict,
        description="bounds that a finished run has to keep, by arm: {mini: {resolved: '>= 0.6'}}",
    )

    @model_validator(mode="before")
    @classmethod
    def _drop_isolation(cls, content: Any) -> Any:
        """Drop a retired key with the value that flow runs of earlier releases carry."""
        if not isinstance(content, dict) or "isolation" not in content:
            return content
        if content["isolation"] != "none":
            raise ValueError(
                "isolation is retired, because cells of a process that dies continue in another: "
                "remove the key"
            )
        return {name: value for name, value in content.items() if name != "isolation"}

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        names = [arm.name for arm in self.arms]
        if len(set(names)) < len(names):
            raise ValueError("two arms have the same name")
        for arm in self.arms:
            base = arm if arm.base is None else self.arm(arm.base)
            is_same = (arm.options, self.model_of(arm)) == (base.options, self.model_of(base))
            if arm.base is not None and is_same:
                raise ValueError(
                    f"arm {arm.name!r} changes nothing of {arm.base!r}: give it other options, or "
                    "another model"
                )
            if ARMS[arm.agent].needs_model and self.model_of(arm) is None:
                raise ValueError(
                    f"arm {arm.name!r} needs a model: declare one for it or for the experiment"
                )
        if self.execution == "distributed" and self.environment == "auto":
            raise ValueError("distributed workers need an explicit environment: docker or host")
        return self

    @model_validator(mode="after")
    def _compares_its_arms(self) -> Self:
        if self.family and not self.primary:
            raise ValueError("a family needs a primary comparison: declare one")
        if self.stop_when and not self.primary:
            raise ValueError("stop_when needs a primary comparison: declare one")
        declared: list[tuple[str, DeclaredComparison]] = []
        if self.primary:
            declared.append(("primary", self.primary))
        declared += [(f"family.{index}", pair) for index, pair in enumerate(self.family)]
        names = {arm.name for arm in self.arms}
        seen: set[frozenset[str]] = set()
        for where, pair in declared:
            unknown = pair.arms - names
            if unknown:
                raise ValueError(f"{where} names no arm of this experiment: {sorted(unknown)}")
            if pair.arms in seen:
                raise ValueError(f"{where} declares {' and '.join(sorted(pair.arms))} again")
            seen.add(pair.arms)
        if judged := self.gates.keys() - names:
            raise ValueError(f"gates names no arm of this experiment: {sorted(judged)}")
        return self

    def model_of(self, arm: ArmSpec) -> ModelSpec | None:
        """Return the model of an arm; None for arms that need none."""
        return (arm.model or self.model) if ARMS[arm.agent].needs_model else None

    @property
    def needs_litellm(self) -> bool:
        """Return True if an arm has a model that LiteLLM reaches."""
        specs = [self.model_of(arm) for arm in self.arms]
        return any(spec is not None and spec.provider == "litellm" for spec in specs)

    @property
    def has_usd_budget(self) -> bool:
        """Return True if a budget is in US dollars, so that every call needs a price."""
        return any(budget.usd is not None for budget in self.budgets.values())

    def arm(self, name: str) -> ArmSpec:
        """Return the arm with this name.

        Raises:
            UsageError: there is no such arm.
        """
        for arm in self.arms:
            if arm.name == name:
                return arm
        names = ", ".join(arm.name for arm in self.arms)
        raise UsageError(f"experiment {self.name!r} has no arm {name!r}; it has {names}")

    def bases(self, arm: ArmSpec) -> list[ArmSpec]:
        """Return the arms that an arm derives from, the nearest first; empty for most arms."""
        bases = []
        while arm.base is not None:
            arm = self.arm(arm.base)
            bases.append(arm)
        return bases

    def afresh(self) -> "Experiment":
        """Return the same experiment under a name that has no results yet."""
        return self.model_copy(update={"name": f"{self.name}-{datetime.now(UTC):%Y%m%dt%H%M%S}"})

    @property
    def defining(self) -> dict[str, Any]:
        """Return every field with its value, except those in `NOT_DECLARED`."""
        return self.model_dump(mode="json", exclude=set(NOT_DECLARED))


ExperimentSource = Annotated[Experiment | str, Form()]
"""An experiment, or where it is: the path of its file, or the name of a Prefect Variable."""


def from_record(declaration: str) -> Experiment:
    """Parse an experiment that the lake recorded as JSON.

    Release 0.1 had one model for the options of all agents. Options that an agent ignored are
    dropped, and so is `isolation`, which is retired.

    Raises:
        ValidationError: it declares an import, or has fields that no longer exist.
    """
    content = json.loads(declaration)
    content.pop("isolation", None)
    for arm in content["arms"]:
        if isinstance(arm, dict) and arm["agent"] in ARMS:
            fields, options = ARMS[arm["agent"]].options.model_fields, arm["options"]
            arm["options"] = {name: options[name] for name in options if name in fields}
    return Experiment.model_validate(content)


def load(path: Path) -> Experiment:
    """Read an experiment file. From then on, modules in its folder can be imported.

    Raises:
        UsageError: the file is invalid; the message states the problem in one line.
    """
    content, folder = mapping(path), str(path.absolute().parent)
    if folder not in sys.path:
        sys.path.append(folder)  # at the end, so that it hides no other module
    return parse(content, str(path))


def mapping(path: Path) -> dict[str, Any]:
    """Read the names and values of a YAML file.

    Raises:
        UsageError: the file is invalid; the message states the problem in one line.
    """
    try:
        text = path.read_text()
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is not YAML: {error}") from None
    return from_yaml(text, str(path))


def from_yaml(text: str, source: str) -> dict[str, Any]:
    """Parse the names and values of a YAML text that was read from `source`.

    Raises:
        UsageError: the text is invalid; the message states the problem in one line.
    """
    try:
        content = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise UsageError(f"{source} is not YAML: {' '.join(str(error).split())}") from None
    except RecursionError:
        raise UsageError(f"{source} is nested too deep") from None
    if not isinstance(content, dict):
        raise UsageError(f"{source} is not a mapping of names to values, such as `name: …`")
    return content


def parse(content: object, source: str) -> Experiment:
    """Validate an experiment that was read from `source`.

    Raises:
        UsageError: the experiment is invalid; the message lists every invalid key in one line.
    """
    try:
        return Experiment.model_validate(content)
    except ValidationError as error:
        raise UsageError(f"{source}: {in_one_line(error)}") from None


def in_one_line(error: ValidationError) -> str:
    """Return all problems of a validation as `where: what`, joined by semicolons."""
    lines = []
    for problem in error.errors():
        where = ".".join(str(part) for part in problem["loc"])
        what = problem["msg"].removeprefix("Value error, ")
        what = "unknown key" if problem["type"] == "extra_forbidden" else what
        lines.append(f"{where}: {what}" if where else what)
    return "; ".join(lines)
