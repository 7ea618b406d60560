"""Names that a piece of Python reads and writes, from its text alone.

The text is walked in the order in which it runs: `x = 10; y = x + 5` reads nothing from before. A
name counts as read if its value from before may be used, and as written if it may be bound, deleted
or changed in place. What a called function does to its arguments is not in the text.
"""

import ast

from agent.graph.scopes import BUILT_IN
from agent.graph.walk import Names, Walk


class NameReader:
    """Reads pieces of Python in the order in which they run.

    It remembers functions, modules and shared values, because a later piece may call a function or
    change a value under another name.
    """

    def __init__(self) -> None:
        self._walk = Walk()

    def read(self, source: str) -> Names:
        """Return the names of the next piece.

        Raises:
            SyntaxError: it is not Python, or nested too deeply to be read.
        """
        try:
            return self._read(ast.parse(source).body)
        except (ValueError, RecursionError, MemoryError) as error:
            raise SyntaxError(str(error) or type(error).__name__) from None

    def _read(self, statements: list[ast.stmt]) -> Names:
        walk = self._walk
        names = walk.names = Names()
        walk.bound = set()
        for statement in statements:
            walk.visit(statement)
        names.kept = names.writes - walk.bound
        return names


def get_reads(source: str) -> frozenset[str]:
    """Return the names whose value from before may be used, without Python's own.

    Raises:
        SyntaxError: it is not Python.
    """
    return frozenset(NameReader().read(source).reads - BUILT_IN)


def get_writes(source: str) -> frozenset[str]:
    """Return the names that may be bound, deleted or changed in place.

    Raises:
        SyntaxError: it is not Python.
    """
    return frozenset(NameReader().read(source).writes)
