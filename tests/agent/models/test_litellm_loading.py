"""LiteLLM's objects and the garbage collector."""

import subprocess
import sys

import pytest

_LOAD = """
import gc, sys
{before}
from agent.models.litellm_loading import load
load()
print(gc.get_freeze_count(), gc.isenabled())
"""


@pytest.mark.parametrize("collects", [True, False])
def test_what_is_loaded_is_never_searched(collects: bool) -> None:
    """All of it is exempt, and whether garbage is collected stays as it was."""
    frozen, enabled = _load("" if collects else "gc.disable()").split()
    assert int(frozen) > 100_000
    assert enabled == str(collects)


def test_duckdb_reports_no_leaks() -> None:
    """It would, if its objects were exempt when the process ends."""
    assert _load("import duckdb") == "0 True\n"


def _load(before: str) -> str:
    """Return the output of a process that loads LiteLLM. Errors count as output."""
    command = [sys.executable, "-c", _LOAD.format(before=before)]
    ended = subprocess.run(
        command, check=True, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    return ended.stdout
