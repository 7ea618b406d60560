"""The meaning of rows of `attempts`, whichever release wrote them."""

import pytest

from flows.storage.journals import is_refused, was_run


@pytest.mark.parametrize(
    ("outcome", "detail", "refused"),
    [
        ("refused", "preflight failed: gold: unresolved", True),
        ("infrastructure", "preflight failed: gold: unresolved", True),  # as of release 0.1
        ("infrastructure", "ImageError: preflight failed to start", False),
        ("submitted", "preflight failed", False),  # the arm's own text
    ],
)
def test_a_refused_attempt_was_not_run(outcome: str, detail: str, refused: bool) -> None:
    """Refused and imported attempts were not run, so no journal has them."""
    row = {"outcome": outcome, "detail": detail, "environment": "docker"}
    assert (is_refused(row), was_run(row)) == (refused, not refused)
    assert not was_run(row | {"environment": "imported"})
