"""Time limits and intervals from the environment."""

import os
import subprocess
import sys
from collections.abc import Callable

import pytest

from agent.errors import InvalidSpec
from agent.timings import timings, variable
from tests.timing import as_variables


def test_a_program_reads_its_environment() -> None:
    """A new process reads its timings from the environment and uses defaults for the rest."""
    code = "from agent.timings import timings; print(timings().lease_s, timings().idle_s)"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **as_variables(lease_s=3.5)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == ["3.5", "300.0"]


@pytest.mark.parametrize(
    ("name", "text"), [("lease_s", "soon"), ("lease_s", "0"), ("idle_s", "-1")]
)
def test_an_invalid_value_is_named(
    name: str, text: str, set_timings: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error names the variable, its value and what is wrong with it."""
    set_timings()
    monkeypatch.setenv(variable(name), text)
    with pytest.raises(InvalidSpec, match=rf"^{variable(name)}={text}: Input should be .*"):
        timings()


def test_a_timing_that_does_not_exist_is_refused(
    set_timings: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A misspelt variable, or one of an earlier release, would otherwise change nothing."""
    set_timings()
    monkeypatch.setenv(variable("budget_poll_s"), "1")
    with pytest.raises(InvalidSpec, match="^DURABENCH_BUDGET_POLL_S: no such timing"):
        timings()
