"""Modules stay short enough to read in one go."""

from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("agent", "eval", "flows", "reports")
LIMIT = 400

EXCEPTIONS = {
    "agent/workspaces/container.py": (
        570,
        "the life of a container from opening over adoption to removal, which shares its state",
    ),
    "reports/types.py": (
        520,
        "declarations without code: every field of a report with its meaning",
    ),
}
"""Longer modules, each with its maximum number of lines and the reason."""


def lengths() -> dict[str, int]:
    """Return the number of lines of every module."""
    return {
        str(path.relative_to(ROOT)): len(path.read_text(encoding="utf-8").splitlines())
        for package in PACKAGES
        for path in (ROOT / package).rglob("*.py")
    }


def test_no_module_is_too_long() -> None:
    """No module exceeds the limit, except those that are listed with a reason."""
    limits = {name: most for name, (most, _) in EXCEPTIONS.items()}
    too_long = {name: lines for name, lines in lengths().items() if lines > limits.get(name, LIMIT)}
    assert too_long == {}


@pytest.mark.parametrize("name", EXCEPTIONS)
def test_every_exception_is_needed(name: str) -> None:
    """Every listed exception still exceeds the limit."""
    assert lengths().get(name, 0) > LIMIT
