"""The fixtures that a test needs."""

import pytest


def needs(item: pytest.Item) -> set[str]:
    """Return the names of a test's fixtures, and its parameters, which may name others."""
    parameters = getattr(getattr(item, "callspec", None), "params", {}).values()
    named = (each for each in parameters if isinstance(each, str))
    return {*getattr(item, "fixturenames", ()), *named}
