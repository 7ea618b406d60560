"""Inspect's own package, which is an extra."""

from types import ModuleType

from flows.display.errors import UsageError


def inspect_log() -> ModuleType:
    """Return the module that reads and writes logs.

    Raises:
        UsageError: the package is not installed.
    """
    try:
        import inspect_ai.log
    except ImportError:
        raise UsageError(
            "logs of Inspect need the package inspect-ai: pip install 'durabench[inspect]'"
        ) from None
    module: ModuleType = inspect_ai.log
    return module
