"""Models that an experiment is about to use, checked before the first call."""

import functools
import importlib.util
import json
import os
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from agent.models.ceilings import Ceilings, get_listed_name, is_ollama
from agent.models.http import load
from agent.models.protocol import ModelRequest
from agent.models.spec import LiteLLMSpec
from eval.reach import explain_unreachable
from flows.experiments.arms import ArmSpec
from flows.experiments.declaration import Experiment
from reports.format import listing

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

ADDRESSES = {
    "anthropic": "https://api.anthropic.com",
    "cerebras": "https://api.cerebras.ai",
    "cohere": "https://api.cohere.com",
    "dashscope": "https://dashscope.aliyuncs.com",
    "deepinfra": "https://api.deepinfra.com",
    "deepseek": "https://api.deepseek.com",
    "fireworks_ai": "https://api.fireworks.ai",
    "gemini": "https://generativelanguage.googleapis.com",
    "groq": "https://api.groq.com",
    "huggingface": "https://router.huggingface.co",
    "mistral": "https://api.mistral.ai",
    "moonshot": "https://api.moonshot.ai",
    "nvidia_nim": "https://integrate.api.nvidia.com",
    "ollama": "http://localhost:11434",
    "ollama_chat": "http://localhost:11434",
    "openai": "https://api.openai.com",
    "openrouter": "https://openrouter.ai",
    "perplexity": "https://api.perplexity.ai",
    "replicate": "https://api.replicate.com",
    "together_ai": "https://api.together.ai",
    "xai": "https://api.x.ai",
}
"""Servers of providers, unless a specification or the environment names another one."""

_PRICES = "model_prices_and_context_window_backup.json"
"""LiteLLM's list of prices, a file in its package."""


def find_model_problems(
    experiment: Experiment, arms: Sequence[ArmSpec], *, calls_here: bool
) -> list[str]:
    """Return why the models of these arms cannot be used, a line for each reason and model.

    With `calls_here`, this machine is to call them, and their keys and addresses are checked.
    """
    return join_arms(
        (problem, arm.name)
        for arm, spec in list_models(experiment, arms)
        for problem in find_problems(spec, experiment.has_usd_budget, calls_here)
    )


def list_models(
    experiment: Experiment, arms: Sequence[ArmSpec]
) -> Iterator[tuple[ArmSpec, LiteLLMSpec]]:
    """Yield the models that LiteLLM reaches, of all roles of these arms."""
    for arm in arms:
        if (own := experiment.model_of(arm)) is not None:
            specs = arm.options.models(own).values()
            yield from ((arm, spec) for spec in specs if isinstance(spec, LiteLLMSpec))


def join_arms(texts: Iterable[tuple[str, str]]) -> list[str]:
    """Return a line for each text, with the names of the arms that come with it."""
    names = defaultdict[str, dict[str, None]](dict)
    for text, arm in texts:
        names[text][arm] = None
    return [
        f"{'arm' if len(arms) == 1 else 'arms'} {listing(list(arms))}: {text}"
        for text, arms in names.items()
    ]


def list_providers_with_keys() -> list[str]:
    """Return the providers whose key is in the environment."""
    return [
        provider
        for provider, variables in KEYS.items()
        if any(os.environ.get(variable, "").strip() for variable in variables)
    ]


def find_problems(spec: LiteLLMSpec, has_budget: bool, calls_here: bool) -> Iterator[str]:
    """Yield why a model cannot be used, one line each."""
    provider = get_provider(spec)
    if provider is None:
        yield f"the model {spec.name} names no provider; for your own server, use openai/NAME"
        return
    if calls_here:
        if (key := _missing_key(spec, provider)) is not None:
            yield f"{spec.name} needs {key} in the environment"
        elif (address := get_address(spec, provider)) and (why := explain_unreachable(address)):
            remedy = "start it, or correct api_base" if spec.api_base else "check the network"
            yield f"{spec.name} cannot be reached: {why}; {remedy}"
    if provider == "ollama" and spec.native_tools:
        yield f"{spec.name} gets no tools: name it ollama_chat/…, or declare native_tools: false"
    if is_ollama(spec.name) and not (spec.context_tokens or spec.extra.get("num_ctx")):
        yield (
            f"{spec.name} has no context_tokens in its `model` block: Ollama would cut a longer "
            "conversation without a word"
        )
    if has_budget and not _has_price(spec, provider):
        yield (
            f"a budget in USD cannot be kept for {spec.name}, whose price is unknown: declare "
            "input_cost_per_token and output_cost_per_token in its `model` block, or limit "
            "calls instead"
        )


def get_provider(spec: LiteLLMSpec) -> str | None:
    """Return the provider that LiteLLM finds for a model, or None."""
    name = get_listed_name(spec.name)
    declared = spec.extra.get("custom_llm_provider") or name.partition("/")[0]
    # LiteLLM is only loaded if needed. It would log in to some providers, on the network, to name
    # them.
    if declared in KEYS or declared in ADDRESSES or declared in load().provider_list:
        return str(declared)
    address = spec.api_base or spec.extra.get("base_url")
    try:
        return str(load().get_llm_provider(name, api_base=address)[1])
    except Exception:  # LiteLLM has several classes for that
        return None


def get_address(spec: LiteLLMSpec, provider: str) -> str | None:
    """Return the URL of a model's server, or None if it is unknown."""
    return (
        spec.api_base
        or spec.extra.get("base_url")
        or spec.extra.get("api_base")
        or next(filter(None, map(os.environ.get, _address_variables(provider))), None)
        or ADDRESSES.get(provider)
    )


def _address_variables(provider: str) -> list[str]:
    return [f"{provider.upper()}_{suffix}" for suffix in ("API_BASE", "BASE_URL")]


def _has_price(spec: LiteLLMSpec, provider: str) -> bool:
    """Return True if the price of a call is known. LiteLLM is only loaded for unusual names."""
    if spec.input_cost_per_token is not None:
        return True
    name = get_listed_name(spec.name)
    for key in (name, name.removeprefix(f"{provider}/")):
        entry = _read_prices().get(key, {})
        if entry.get("litellm_provider") == provider and "output_cost_per_token" in entry:
            return True
    return Ceilings(load(), spec).usd(ModelRequest([])) is not None


@functools.cache
def _read_prices() -> dict[str, dict[str, object]]:
    package = importlib.util.find_spec("litellm")
    assert package is not None, "it is installed"
    assert package.origin is not None, "it has a file"
    prices: dict[str, dict[str, object]] = json.loads(
        Path(package.origin).with_name(_PRICES).read_bytes()
    )
    return prices


def _missing_key(spec: LiteLLMSpec, provider: str) -> str | None:
    """Return the variables that can hold a provider's key, or None if it needs none of them.

    Your own server can work without a key, and `extra` can hold other credentials.
    """
    variables = KEYS.get(provider, ())
    may_be_set = (*_address_variables(provider), *variables)
    is_set = any(os.environ.get(variable, "").strip() for variable in may_be_set)
    if spec.api_base is not None or is_set:
        return None
    if spec.extra:
        parameters = load().constants.DEFAULT_CHAT_COMPLETION_PARAM_VALUES.keys() | _NO_KEYS
        if spec.extra.keys() - (parameters - _MAY_BE_KEYS):
            return None
    return " or ".join(name for name in variables if name.endswith("_API_KEY")) or None
