"""Definitions of a repository and the locations at which they are used."""

from dataclasses import dataclass
from typing import NamedTuple

from agent.index.syntax import Kind


class Definition(NamedTuple):
    """A module, class, function, method, or variable of a module or class."""

    path: str
    module: str
    """Dotted name by which it is most likely imported."""
    qualified: str
    """Name within the module: `Reader.load`, and `Reader.load.helper` for a nested function.

    Empty for the module itself.
    """
    kind: Kind
    start: int
    """First line, 1-based, including decorators."""
    line: int
    """Line of `def` or `class`."""
    end: int
    """Last line, inclusive."""
    signature: str
    """The header in one line; empty for a module."""
    doc: str
    """The first line of the docstring."""

    @property
    def name(self) -> str:
        return self.full_name.rpartition(".")[2]

    @property
    def full_name(self) -> str:
        return f"{self.module}.{self.qualified}" if self.qualified else self.module


@dataclass(frozen=True, slots=True)
class Use:
    """A location at which a definition is called or otherwise used.

    Other uses are passing it on, decorating with it, deriving from it, or reading it as a property.
    """

    path: str
    line: int
    text: str
    """The evaluated expression, such as `self.reader.load`; `…` replaces a subexpression."""
    inside: Definition
    """The innermost definition around the use, at least the module."""
    targets: tuple[Definition, ...]
    """The used definition; for a possible use, every definition that it could be."""
    is_certain: bool
    """True if imports, scopes and types determine the target.

    Otherwise only the name agrees, or a subclass overrides the determined target.
    """
    is_call: bool


Key = tuple[str, str]
"""The path of a definition and its qualified name, which overloads share."""
