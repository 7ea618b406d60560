"""The end of an attempt's run, as the journal and the lake record it."""

import json

import pytest

from agent.errors import BudgetExhausted, Interrupted
from agent.types import Outcome
from flows.experiments import cell_state
from flows.experiments.cell_state import Interruption


@pytest.mark.parametrize(
    ("error", "interruption"),
    [
        (BudgetExhausted("$1 is spent"), Interruption("budget_stop", "$1 is spent")),
        (Interrupted("stopped"), Interruption("interrupted", "stopped")),
        (OSError("no space"), Interruption("infrastructure", "OSError: no space")),
    ],
)
def test_an_error_means_one_interruption(error: Exception, interruption: Interruption) -> None:
    """A spent budget and a stop by the operator have their own status. Any other error is
    infrastructure, with its type in the detail."""
    assert Interruption.of(error) == interruption


def test_an_outcome_is_read_as_it_was_written() -> None:
    """An outcome is read back. Earlier releases recorded the time of the last run with it."""
    outcome = Outcome("submitted", "patch", "done")
    text = cell_state.to_text(outcome)
    run = {"started_at": "2026-01-01T00:00:00+00:00", "duration_s": 1.5}
    for each in (text, json.dumps({**json.loads(text), "run": run})):
        assert cell_state.from_text(each) == outcome
    assert (
        cell_state.from_text('{"status": "submitted", "detail": "done", "patch": "patch"}')
        == outcome
    )
