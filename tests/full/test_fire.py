"""The short form of `make fire`."""

import sys
from pathlib import Path

import pytest

from tests.fire import __main__ as fire

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600)]


def test_sixty_faults(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sixty random faults in random experiments change nothing but the bill, within its limits."""
    options = ("--faults", "60", "--folder", str(tmp_path))
    monkeypatch.setattr(sys, "argv", ["fire", *options])
    assert fire.main() == 0, [file.read_text() for file in tmp_path.glob("fire.json")]
