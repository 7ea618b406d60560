"""Names of steps."""


def place(scope: str, seq: int) -> str:
    """Return scope and number of a step as they are shown and typed, such as `plan/3`."""
    return f"{scope}/{seq}" if scope else str(seq)
