"""Sums of tokens and money with unknown parts."""

from dataclasses import asdict, fields

from hypothesis import given
from hypothesis import strategies as st

from agent.models import ModelReply
from agent.models.protocol import Usage
from agent.session.steps import decode, encode

_COUNTS = st.none() | st.integers(0, 10**12)
_COSTS = st.none() | st.integers(0, 10**6).map(float)
USAGES = st.builds(
    Usage, **{each.name: _COSTS if each.name == "cost_usd" else _COUNTS for each in fields(Usage)}
)


@given(st.lists(USAGES))
def test_a_sum_is_known_only_if_every_part_of_it_is(usages: list[Usage]) -> None:
    """Holds for each kind of tokens and for money by itself; no call at all uses nothing."""
    total = asdict(sum(usages, Usage()))
    for name, amount in total.items():
        parts = [getattr(usage, name) for usage in usages]
        assert amount == (None if None in parts else sum(parts)), name


@given(USAGES)
def test_what_is_unknown_is_recorded_as_unknown(usage: Usage) -> None:
    """A replayed reply has the numbers of the first time."""
    reply = ModelReply({"role": "assistant"}, usage, "unknown", "m")
    assert decode("model", encode(reply)) == reply
