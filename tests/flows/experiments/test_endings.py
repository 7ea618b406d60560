"""The end of an attempt's run, as the journal and the lake record it."""

from datetime import UTC, datetime

import pytest

from agent.errors import BudgetExhausted, Interrupted
from agent.types import Outcome
from flows.experiments import endings
from flows.experiments.endings import Interruption, Run


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
    """An outcome is read back with its run. If release 0.1 recorded no run, the given one is
    used."""
    outcome, run = Outcome("submitted", "patch", "done"), Run(datetime.now(UTC), 1.5)
    assert endings.from_text(endings.to_text(outcome, run), Run(run.started_at, 0)) == (
        outcome,
        run,
    )
    assert endings.from_text(
        '{"status": "submitted", "detail": "done", "patch": "patch"}', run
    ) == (outcome, run)
