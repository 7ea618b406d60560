"""A lake for imports."""

from pathlib import Path

import pytest

from flows.storage.lake import Lake


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """Return an empty lake."""
    return Lake(tmp_path / "lake")
