"""Capabilities by name: those of this package, and those of others by their dotted path."""

import importlib
from collections.abc import Mapping, Sequence

from agent.capabilities.ask import ASK
from agent.capabilities.base import Capability, check
from agent.capabilities.cells import CELLS
from agent.capabilities.files import FILES, LOOK
from agent.capabilities.ptc import PTC
from agent.capabilities.shell import SHELL
from agent.capabilities.subagents import SUBAGENTS
from agent.capabilities.symbols import SYMBOLS
from agent.capabilities.tests import TESTS
from agent.errors import InvalidSpec

BUILT_IN: Mapping[str, Capability] = {
    each.name: each for each in (FILES, LOOK, SYMBOLS, SHELL, TESTS, PTC, SUBAGENTS, CELLS, ASK)
}


def load(names: Sequence[str]) -> tuple[Capability, ...]:
    """Return capabilities by their names. `module:NAME` is one of another package.

    Raises:
        InvalidSpec: there is no such capability, or two of them do not fit together.
    """
    found = tuple(_named(name) for name in dict.fromkeys(names))
    check(found)
    return found


def _named(name: str) -> Capability:
    if name in BUILT_IN:
        return BUILT_IN[name]
    module, colon, attribute = name.partition(":")
    if not colon:
        raise InvalidSpec(
            f"there is no capability {name!r}: name one of {', '.join(BUILT_IN)}, or one of "
            "another package as package.module:NAME"
        )
    try:
        found: object = getattr(importlib.import_module(module), attribute)
    except Exception as error:  # a module of others may raise anything
        raise InvalidSpec(
            f"capability {name} cannot be imported: {type(error).__name__}: {error}"
        ) from None
    if not isinstance(found, Capability):
        raise InvalidSpec(f"{name} is no Capability but {type(found).__name__}")
    return found
