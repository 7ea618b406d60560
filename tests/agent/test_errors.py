"""Errors keep their content when they are sent between processes."""

import pickle

import pytest

from agent.errors import (
    AgentError,
    BudgetExhausted,
    DivergenceError,
    FencedError,
    InfrastructureError,
    JournalError,
    LeaseHeld,
    OtherJournal,
)

DIVERGENCE = DivergenceError("a1", "plan/1", 3, '{\n"cmd": "ls"\n}', '{\n"cmd": "pwd"\n}')


def test_a_divergence_shows_both_requests() -> None:
    """The message names the step and shows a unified diff from the recorded to the new request."""
    lines = str(DIVERGENCE).splitlines()
    assert lines[0] == "attempt a1 makes a new request at step plan/1/3:"
    assert lines[1:3] == ["--- recorded", "+++ requested"]
    assert '-"cmd": "ls"' in lines
    assert '+"cmd": "pwd"' in lines
    assert not isinstance(DIVERGENCE, InfrastructureError)


@pytest.mark.parametrize(
    "error",
    [
        DIVERGENCE,
        BudgetExhausted("spent"),
        JournalError("gone", retryable=False),
        LeaseHeld("held", "a1"),
        OtherJournal("another"),
        FencedError("fenced", name="a1"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_errors_survive_pickling(error: AgentError) -> None:
    """A pickled error keeps its type, message and fields."""
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error)
    assert str(again) == str(error)
    assert vars(again) == vars(error)


def test_only_temporary_failures_are_retried() -> None:
    """A lost lease is not retried, and a lease that another worker holds is not a failure."""
    assert not isinstance(LeaseHeld("held"), InfrastructureError)
    assert not FencedError("fenced").retryable
