"""The index of a repository: its text, its symbols, its tests, and a map of it for a task.

`sources` reads the text from a workspace. Everything else is pure and works on paths and texts.
`imports` finds the import statements of a file, `syntax` parses a file, and `chains` its
expressions. `files` decides by the text which files a question needs, and has them parsed,
`undisturbed` by warnings. `modules` finds the file that an import refers to, and `resolution`
follows names from file to file. `symbols` combines them to find `definitions`, callers and callees.
`tests_of` finds the tests that likely cover a file. `relevance` scores files and names for a task,
and `repository_map` shows the most relevant ones within a budget of tokens. `shared` keeps the last
few indexes for all attempts of a process, and asks them.
"""

from agent.index.definitions import Definition, Use
from agent.index.repository_map import draw
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
    "draw",
    "find_tests",
    "query",
    "read_sources",
]
