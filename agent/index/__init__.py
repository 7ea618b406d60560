"""The index of a repository: its text, its symbols and its tests.

`sources` reads the text from a workspace, and keeps the last few indexes for all attempts of a
process. Everything else is pure and works on paths and texts. `languages` loads the grammars of
tree-sitter, `syntax` reads the definitions and imports of a file, and `references` its uses of
names as `chains`. `modules` finds the file that an import refers to, and `resolution` follows names
from file to file. `symbols` combines them to find definitions, callers and callees. `tests_of`
finds the tests that likely cover a file.
"""

from agent.index.sources import Indexed, query
from agent.index.symbols import SymbolIndex
from agent.index.tests_of import covering, find_tests, get_changed_names
