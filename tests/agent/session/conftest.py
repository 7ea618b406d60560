"""An attempt that can be run any number of times."""

from pathlib import Path

import pytest

from tests.agent.session.runs import Runs


@pytest.fixture
def runs(tmp_path: Path) -> Runs:
    """Return an attempt on a host workspace, with a journal of its own."""
    return Runs(tmp_path)
