"""A short run of the fuzz of hand-overs, with real processes and real kills."""

import subprocess
import sys

import pytest

from tests.durability.migration_fuzz import KINDS


@pytest.mark.slow
@pytest.mark.sampled(3)
@pytest.mark.parametrize("kind", KINDS)
def test_attempts_survive_being_handed_over_by_force(kind: str) -> None:
    """With programs and children in flight, results are equal and only lost calls are repeated."""
    command = [sys.executable, "-m", "tests.durability.migration_fuzz", "--iterations", "1"]
    done = subprocess.run(
        [*command, "--kind", kind, "--seed", "3"], capture_output=True, text=True, timeout=280
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "hand-overs: " in done.stdout
