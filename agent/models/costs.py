"""The cost of one answer: all evidence is weighed, and the source is recorded."""

from agent.models.ceilings import Ceilings
from agent.models.protocol import CostSource, Usage
from agent.models.usage import ReportedUsage


def cost_of(reported: ReportedUsage, ceilings: Ceilings) -> tuple[float | None, CostSource]:
    """Return US dollars and their source.

    In order of preference: the provider's own figure above 0, a declared price, LiteLLM's list, a
    reported 0 that nothing contradicts, or unknown.
    """
    cost_usd = reported.usage.cost_usd
    if cost_usd:
        return cost_usd, "provider"
    known = _whole(reported.usage)
    if known is not None and ceilings.declared is not None:
        of_input, of_output = ceilings.declared
        usd = (known.input_tokens or 0) * of_input + (known.output_tokens or 0) * of_output
        return usd, "declared"
    if known is not None and (usd_listed := _listed(reported, known, ceilings)) is not None:
        return usd_listed, "litellm"
    if cost_usd == 0 and not reported.has_own_key and ceilings.declared is None:
        return 0.0, "provider"
    return None, "unknown"


def _whole(usage: Usage) -> Usage | None:
    """Return the tokens of a call, or None if the input or the output is unknown."""
    if not usage.input_tokens or usage.output_tokens is None:
        return None  # no request has an input of 0 tokens
    return Usage(
        usage.input_tokens,
        usage.cache_read_tokens or 0,
        usage.cache_write_tokens or 0,
        usage.output_tokens,
        usage.reasoning_tokens or 0,
    )


def _listed(reported: ReportedUsage, known: Usage, ceilings: Ceilings) -> float | None:
    if not ceilings.is_listed:  # to search the list for every call takes a millisecond
        return None
    hours = reported.written_for_an_hour
    try:
        cost = sum(ceilings.listed_usd(known, written_for_an_hour=hours))
    except Exception:  # LiteLLM raises a bare Exception for an unlisted model
        return None
    return cost if cost > 0 or ceilings.is_priced else None
