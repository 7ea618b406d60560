"""Models that an experiment is about to use, checked before the first call."""

import os
from collections.abc import Sequence

from agent.models.ceilings import Ceilings, get_listed_name
from agent.models.http import load
from agent.models.protocol import ModelRequest
from agent.models.spec import LiteLLMSpec
from flows.display.errors import UsageError
from flows.experiments.cell_state import is_solved
from flows.experiments.cells import Cell
from flows.experiments.declaration import Experiment
from flows.storage.lake import Lake

KEYS = {
    "anthropic": ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"),
    "cerebras": ("CEREBRAS_API_KEY",),
    "cohere": ("COHERE_API_KEY", "CO_API_KEY"),
    "dashscope": ("DASHSCOPE_API_KEY",),
    "deepinfra": ("DEEPINFRA_API_KEY",),
    "deepseek": ("DEEPSEEK_API_KEY",),
    "fireworks_ai": (
        *("FIREWORKS_AI_API_KEY", "FIREWORKS_API_KEY"),
        *("FIREWORKSAI_API_KEY", "FIREWORKS_AI_TOKEN"),
    ),
    "gemini": ("GEMINI_API_KEY", "GOOGLE_API_KEY"),
    "groq": ("GROQ_API_KEY",),
    "huggingface": ("HUGGINGFACE_API_KEY", "HF_TOKEN"),
    "mistral": ("MISTRAL_API_KEY", "MISTRAL_AZURE_API_KEY"),
    "moonshot": ("MOONSHOT_API_KEY",),
    "nvidia_nim": ("NVIDIA_NIM_API_KEY",),
    "openai": ("OPENAI_API_KEY", "OPENAI_IDENTITY_PROVIDER_ID"),
    "openrouter": ("OPENROUTER_API_KEY", "OR_API_KEY"),
    "perplexity": ("PERPLEXITYAI_API_KEY", "PERPLEXITY_API_KEY"),
    "replicate": ("REPLICATE_API_KEY", "REPLICATE_API_TOKEN"),
    "together_ai": (
        *("TOGETHERAI_API_KEY", "TOGETHER_API_KEY"),
        *("TOGETHER_AI_API_KEY", "TOGETHER_AI_TOKEN"),
    ),
    "xai": ("XAI_API_KEY",),
}
"""Variables by provider; LiteLLM needs one of them. LiteLLM only checks the first of most, and
accepts a blank key. Providers that are not listed can have other credentials or none."""

_NO_KEYS = {"extra_body", "top_k"}
"""Names in `extra` that do not authenticate, besides LiteLLM's parameters of a chat completion."""

_MAY_BE_KEYS = {"extra_headers"}
"""LiteLLM parameters that can authenticate."""


def refuse_unusable_models(
    experiment: Experiment, cells: Sequence[Cell], lake: Lake, *, with_keys: bool
) -> None:
    """Check the models of the arms that have cells to solve: provider, price, and key if wanted.

    Keys are checked on the machine that calls the models; other machines cannot check them.

    Raises:
        UsageError: no call of a model could be made, or none under the budget.
    """
    has_budget = any(budget.usd is not None for budget in experiment.budgets.values())
    for arm in experiment.arms:
        model = experiment.model_of(arm)
        roles = arm.options.models(model).values() if model is not None else ()
        specs = [spec for spec in roles if isinstance(spec, LiteLLMSpec)]
        if not specs or all(is_solved(cell, lake) for cell in cells if cell.arm == arm):
            continue
        for spec in specs:
            if (problem := _problem(spec, has_budget, with_keys)) is not None:
                raise UsageError(f"arm {arm.name}: {problem}")


def _problem(spec: LiteLLMSpec, has_budget: bool, with_keys: bool) -> str | None:
    provider = _provider(spec)
    if provider is None:
        return f"the model {spec.name} names no provider; for your own server, use openai/NAME"
    if with_keys and (key := _missing_key(spec, provider)) is not None:
        return f"{spec.name} needs {key} in the environment"
    if has_budget and Ceilings(load(), spec).usd(ModelRequest([])) is None:
        return (
            f"a budget in USD cannot be kept for {spec.name}, whose price is unknown: declare its "
            "input_cost_per_token and output_cost_per_token, or limit calls instead"
        )
    return None


def _provider(spec: LiteLLMSpec) -> str | None:
    """Return the provider that LiteLLM finds for a model, or None."""
    name = get_listed_name(spec.name)
    declared = spec.extra.get("custom_llm_provider") or name.partition("/")[0]
    # LiteLLM is only loaded if needed. It would log in to some providers, on the network, to name
    # them.
    if declared in KEYS or declared in load().provider_list:
        return str(declared)
    address = spec.api_base or spec.extra.get("base_url")
    try:
        return str(load().get_llm_provider(name, api_base=address)[1])
    except Exception:  # LiteLLM has several classes for that
        return None


def _missing_key(spec: LiteLLMSpec, provider: str) -> str | None:
    """Return the variables that can hold a provider's key, or None if it needs none of them.

    Your own server can work without a key, and `extra` can hold other credentials.
    """
    addresses = [f"{provider.upper()}_{suffix}" for suffix in ("API_BASE", "BASE_URL")]
    variables = KEYS.get(provider, ())
    is_set = any(os.environ.get(variable, "").strip() for variable in (*addresses, *variables))
    if spec.api_base is not None or is_set:
        return None
    if spec.extra:
        parameters = load().constants.DEFAULT_CHAT_COMPLETION_PARAM_VALUES.keys() | _NO_KEYS
        if spec.extra.keys() - (parameters - _MAY_BE_KEYS):
            return None
    return " or ".join(name for name in variables if name.endswith("_API_KEY")) or None
