"""Short timings for programs under test."""

from agent.timings import Timings, variable


def as_variables(**seconds: float) -> dict[str, str]:
    """Return the environment variables of fields of `Timings`."""
    assert seconds.keys() <= Timings.model_fields.keys()
    return {variable(name): str(value) for name, value in seconds.items()}
