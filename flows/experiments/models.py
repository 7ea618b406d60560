"""Models that an experiment is about to use, checked before the first call."""

import os
from collections.abc import Iterator, Sequence

from agent.models.ceilings import Ceilings, listed_name
from agent.models.litellm_loading import load
from agent.models.protocol import ModelRequest
from agent.models.spec import LiteLLMSpec
from flows.errors import UsageError
from flows.experiments.arms import ArmSpec
from flows.experiments.cell_state import is_solved
from flows.experiments.cells import Cell
from flows.experiments.declaration import Experiment
from flows.storage.lake import Lake

_OTHER_KEYS = ("extra_headers", "headers", "aws_", "azure_", "vertex_")
"""Beginnings of names in `extra` that authenticate by other means than a key."""


def refuse_unusable_models(experiment: Experiment, cells: Sequence[Cell], lake: Lake) -> None:
    """Check the models of the arms that have cells to solve: place, key and price.

    Raises:
        UsageError: no call of a model could be made, or none under the budget.
    """
    has_budget = any(budget.usd is not None for budget in experiment.budgets.values())
    for arm in experiment.arms:
        specs = list(_specs(experiment, arm))
        if not specs or all(is_solved(cell, lake) for cell in cells if cell.arm == arm):
            continue
        for spec in specs:
            if (problem := _problem(spec, has_budget=has_budget)) is not None:
                raise UsageError(f"arm {arm.name}: {problem}")


def _specs(experiment: Experiment, arm: ArmSpec) -> Iterator[LiteLLMSpec]:
    own = experiment.model_of(arm)
    specs = arm.options.models(own).values() if own is not None else ()
    yield from (spec for spec in specs if isinstance(spec, LiteLLMSpec))


def _problem(spec: LiteLLMSpec, *, has_budget: bool) -> str | None:
    litellm = load()
    try:
        litellm.get_llm_provider(listed_name(spec.name))
    except Exception:  # LiteLLM has several classes for that
        return f"the model {spec.name} names no provider; for a server of your own, openai/NAME"
    if (key := _missing_key(spec)) is not None:
        return f"{spec.name} needs {key} in the environment"
    if has_budget and Ceilings(litellm, spec).usd(ModelRequest([])) is None:
        return (
            f"a budget in USD cannot be kept for {spec.name}, whose price is unknown: declare its "
            "input_cost_per_token and output_cost_per_token, or limit calls instead"
        )
    return None


def _missing_key(spec: LiteLLMSpec) -> str | None:
    """Return the variable in which a provider's key is missing, or None.

    A server with an `api_base` may need no key, and other credentials may be found elsewhere.
    """
    if spec.api_base is not None or any(name.startswith(_OTHER_KEYS) for name in spec.extra):
        return None
    provider = str(load().get_llm_provider(listed_name(spec.name))[1])
    variable = f"{provider.upper()}_API_KEY"
    if variable in os.environ and not os.environ[variable].strip():
        return variable
    missing = load().validate_environment(listed_name(spec.name)).get("missing_keys") or []
    plain = missing and all(name.endswith("_API_KEY") for name in missing)
    return " or ".join(missing) if plain else None
