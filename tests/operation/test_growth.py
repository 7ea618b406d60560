"""The measurement of growth, with small numbers of cells."""

import re
import subprocess
import sys

import pytest

from tests.servers.postgres import require_postgres
from tests.servers.prefect_server import ROOT

pytestmark = [pytest.mark.full, pytest.mark.slow, pytest.mark.timeout(1200)]


def bench(*arguments: str) -> "subprocess.CompletedProcess[str]":
    """Run `python -m tests.bench growth`."""
    command = [sys.executable, "-m", "tests.bench", "growth", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def test_growth_is_measured_with_any_number_of_cells() -> None:
    """Each figure is there, and none is promised for these numbers."""
    require_postgres()
    done = bench("--cells", "240")
    assert done.returncode == 0, done.stderr
    for what in ("processor time", "server's", "time"):
        assert re.search(rf"growth of the {what} of a cell over 3 workers: \d", done.stdout)
    for what in ("command", "shard"):
        assert f"growth of the memory of a {what}: " in done.stdout
    again = re.findall(r"a finished experiment of (\d+) cells again, (\w+): \d", done.stdout)
    both = ("distributed", "local")
    assert again == [("240", how) for how in both]
    assert "promised" not in done.stdout


def test_a_number_that_arms_cannot_share_is_refused() -> None:
    """The cells are repeats of ten instances in arms of at most a thousand cells."""
    done = bench("--cells", "1005")
    assert done.returncode == 2
    assert "1005 is no multiple of 20" in done.stderr
