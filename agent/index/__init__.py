"""What there is in a repository: its text, its symbols, its tests, and a map of it for a task.

`sources` reads the text out of a workspace; everything else is pure and works on paths and
texts. `syntax` says what one Python file says by itself, `modules` which file an import means,
`resolution` follows names from file to file, and `symbols` answers by all three: definitions,
callers, callees. `tests_of` names the tests that likely cover a file. `relevance` weighs files
and names by a task, and `repository_map` draws the most relevant ones within a budget of tokens.
"""

from agent.index.repository_map import draw
from agent.index.sources import Sources, read_sources
from agent.index.symbols import Definition, SymbolIndex, Use
from agent.index.tests_of import Covering, covering, find_tests

__all__ = [
    "Covering",
    "Definition",
    "Sources",
    "SymbolIndex",
    "Use",
    "covering",
    "draw",
    "find_tests",
    "read_sources",
]
