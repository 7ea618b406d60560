"""The index of a repository: its text, its symbols and its tests.

`sources` reads the text from a workspace. Everything else is pure and works on paths and texts.
`languages` loads the grammars of tree-sitter, and `syntax` reads the definitions of a file with
them, `uses` its variables and references, and `chains` expressions. `modules` finds the file that
an import refers to, and `resolution` follows names from file to file. `symbols` combines them to
find `definitions`, callers and callees. `tests_of` finds the tests that likely cover a file.
`shared` keeps the last few indexes for all attempts of a process, and asks them.
"""

from agent.index.definitions import Definition, Use
from agent.index.shared import Indexed, query
from agent.index.sources import Sources, read_sources
from agent.index.symbols import SymbolIndex
from agent.index.tests_of import Covering, changed_names, covering, find_tests

__all__ = [
    "Covering",
    "Definition",
    "Indexed",
    "Sources",
    "SymbolIndex",
    "Use",
    "changed_names",
    "covering",
    "find_tests",
    "query",
    "read_sources",
]
