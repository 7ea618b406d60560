"""One arm of an experiment or of a job: its agent, its model and its options."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from agent.arms import ARMS, python
from agent.arms.command.recipe import ACP, CommandOptions, list_shipped_recipes
from agent.arms.durable.options import DurableOptions
from agent.arms.options import (
    ArmOptions,
    LoopOptions,
    MiniOptions,
    MiniRetryOptions,
    PythonOptions,
    StagedOptions,
)
from agent.models.spec import ModelSpec
from flows.display.errors import UsageError
from flows.experiments.forms import ArmForm
from flows.storage.lake import NAME


def make_name(text: str) -> str:
    """Return a text as a name: in lower case, with a hyphen in place of other characters."""
    return re.sub("[^a-z0-9._-]+", "-", text.lower()).strip("-._")


class Declared(BaseModel):
    """A part of a declaration. Unknown names are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class _Arm(Declared):
    model_config = ConfigDict(serialize_by_alias=True)

    name: str = Field(pattern=NAME, description="name of the arm in reports")
    base: str | None = Field(
        default=None,
        alias="from",
        description="arm to derive from: steps with the same inputs are shared with its attempts",
    )
    model: ModelSpec | None = Field(
        default=None, description="LiteLLM model string or model block; default the experiment's"
    )


class MiniArm(_Arm):
    """mini-swe-agent, its model and its limits."""

    agent: Literal["mini"] = Field(description="mini-swe-agent, the lightweight baseline")
    options: MiniOptions = Field(default_factory=MiniOptions, description="its limits")


class MiniRetryArm(_Arm):
    """mini-swe-agent several times, its model, its limits and the number of tries."""

    agent: Literal["mini_retry"] = Field(description="mini-swe-agent, best of several tries")
    options: MiniRetryOptions = Field(
        default_factory=MiniRetryOptions, description="limits of each try, and how many"
    )


class DurableArm(_Arm):
    """The durable agent, its model and its settings."""

    agent: Literal["durable"] = Field(description="the durable agent of this project")
    options: DurableOptions = Field(default_factory=DurableOptions, description="its settings")


class LoopArm(_Arm):
    """An agent whose capabilities are switched on one by one, its model and its limits."""

    agent: Literal["loop"] = Field(description="one conversation with chosen capabilities")
    options: LoopOptions = Field(default_factory=LoopOptions, description="its settings")


class StagedArm(_Arm):
    """An agent that explores, plans, builds and verifies, its models and its limits."""

    agent: Literal["staged"] = Field(description="explores, plans, builds and verifies")
    options: StagedOptions = Field(default_factory=StagedOptions, description="its settings")


class CommandArm(_Arm):
    """Any program that speaks to a model API, its model and its limits."""

    agent: Literal["command"] = Field(description="any program that speaks to a model API")
    options: CommandOptions = Field(description="the program and its limits")


class PythonArm(_Arm):
    """A function of another package, its model and its settings."""

    agent: Literal["python"] = Field(description="a function of another package")
    options: PythonOptions = Field(description="the function and its settings")


class ReferenceArm(_Arm):
    """A control that uses no model."""

    agent: Literal["gold", "null"] = Field(
        description="gold applies the reference patch, null changes nothing"
    )
    options: ArmOptions = Field(default_factory=ArmOptions, description="its limits")


class DerivedArm(_Arm):
    """An arm that differs from its base in some options. It has the agent of its base."""

    base: str = Field(alias="from", description="arm of this experiment to derive from")
    options: dict[str, Any] = Field(
        default_factory=dict, description="the options that differ, at any depth"
    )


_AnyArm = Annotated[
    MiniArm
    | MiniRetryArm
    | DurableArm
    | LoopArm
    | StagedArm
    | CommandArm
    | PythonArm
    | ReferenceArm,
    Field(discriminator="agent"),
]


def _with_function(value: Any) -> Any:
    """Return an arm whose `agent` names a function as an arm of the agent `python`."""
    if not isinstance(value, dict) or not isinstance(value.get("agent"), str):
        return value
    name, options = value["agent"], value.get("options") or {}
    if name in ARMS or (":" not in name and name not in python.list_announced_arms()):
        return value
    if not isinstance(options, dict):
        raise ValueError("the options of a function are a mapping of its settings")
    of_python = PythonOptions.model_fields.keys() - ArmOptions.model_fields.keys()
    if nested := of_python & options.keys():
        names = ", ".join(map(repr, sorted(nested)))
        raise ValueError(f"the options of a function are its settings: write them without {names}")
    limits = {field: options[field] for field in options if field in ArmOptions.model_fields}
    settings = {field: options[field] for field in options if field not in limits}
    return {
        **value,
        "agent": "python",
        "options": {"function": name, "settings": settings, **limits},
    }


def make_arm(agent: str) -> dict[str, Any]:
    """Return the arm of an agent without other options, as a file declares it.

    The agent is the name of one, a recipe of a program or its path, or `package.module:function`.

    Raises:
        UsageError: the agent does not exist.
    """
    names = [name for name in ARMS if name not in ("command", "python")]
    if agent in names:
        return {"name": make_name(agent), "agent": agent}
    recipes = list_shipped_recipes()
    if agent in recipes or agent.startswith(ACP) or agent.endswith((".yaml", ".yml")):
        name = make_name(Path(agent).stem)
        return {"name": name, "agent": "command", "options": {"recipe": agent}}
    if ":" in agent or agent in python.list_announced_arms():
        return {"name": make_name(agent), "agent": agent}
    raise UsageError(
        f"there is no arm {agent!r}: name {', '.join(names)}, a recipe ({', '.join(recipes)}) or "
        "package.module:function"
    )


def needs_model(agent: str) -> bool:
    """Return True if the arms of an agent need a model."""
    return agent not in ARMS or ARMS[agent].needs_model  # functions need one


ArmSpec = Annotated[
    _AnyArm,
    BeforeValidator(_with_function, json_schema_input_type=_AnyArm | DerivedArm),
    ArmForm(),
]
"""One arm. Its `agent` determines its options."""


_KINDS: Mapping[str, str | None] = {"preset": "lean", "provider": None}
"""Names that distinguish kinds of options and models, with their defaults."""

_OF_THE_EXPERIMENT = ("dataset", "split", "environment", "network", "seed")


def derive_arms(arms: object) -> object:
    """Return the arms of a declaration, each derived one with the parts of its base.

    The next validation refuses anything that is not a list of mappings.

    Raises:
        ValueError: a base does not exist, has another agent, or derives from its own descendant.
    """
    if not isinstance(arms, list):
        return arms
    named = {arm["name"]: arm for arm in arms if isinstance(arm, dict) and "name" in arm}
    return [_whole(arm, named, ()) if isinstance(arm, dict) else arm for arm in arms]


def merge_options(known: Mapping[str, Any], changed: Mapping[str, Any]) -> dict[str, Any]:
    """Return options, with changed options replacing the options of the same names at any depth.

    A mapping of another kind, such as another preset, replaces the known one.
    """
    options = dict(known)
    for name, value in changed.items():
        inner = options.get(name)
        if isinstance(inner, dict) and isinstance(value, dict):
            kinds = {kind: inner.get(kind, default) for kind, default in _KINDS.items()}
            if all(kinds[kind] == value[kind] for kind in kinds if kind in value):
                value = merge_options(inner, value)
        options[name] = value
    return options


def _whole(arm: dict[str, Any], named: Mapping[str, Any], behind: tuple[str, ...]) -> Any:
    """Return an arm with the parts of its base. `behind` are the arms that derive from it."""
    base_name, name = arm.get("from"), arm.get("name")
    if base_name is None:
        return arm
    if name in behind:
        raise ValueError(f"arms derive from each other: {' from '.join((*behind, str(name)))}")
    if base_name not in named:
        raise ValueError(f"arm {name!r} derives from {base_name!r}, no arm of this experiment")
    for field in _OF_THE_EXPERIMENT:
        if field in arm:
            raise ValueError(
                f"arm {name!r} derives from {base_name!r}: it has the {field} of the experiment"
            )
    base = _whole(named[base_name], named, (*behind, str(name)))
    agent = arm.get("agent", base.get("agent"))
    if agent != base.get("agent"):
        raise ValueError(
            f"arm {name!r} derives from {base_name!r}, whose agent is {base.get('agent')}: it "
            f"cannot be {agent}"
        )
    inherited, options = base.get("options") or {}, arm.get("options") or {}
    if isinstance(inherited, dict) and isinstance(options, dict):
        options = merge_options(inherited, options)
    model = arm.get("model") or base.get("model")
    return {**arm, "agent": agent, "model": model, "options": options}
