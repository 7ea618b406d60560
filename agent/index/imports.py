"""Import statements of Python files, found in their text.

This takes a hundredth of the time of parsing, and works for files that this Python cannot parse. An
import in the text of a string counts, too: tests of tools write such modules.
"""

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

CACHED_FILES = 8192
"""The files whose syntax and imports a process remembers."""

_STATEMENT = re.compile(
    r"""[ \t]*(?:
    from (?P<module> \s*\.[.\s]*[\w.]* | \s+[\w.]+ ) [\s\\]* \b import \b [\s\\]*
        (?P<names> \( (?: \#[^\n]* | [^)\#] )* \) | (?: \\\n | [^\n;\#\\] )* )
    | import \b (?P<modules> (?: \\\n | [\w.,\ \t] )+ )
    )""",
    re.VERBOSE,
)
_NAME = re.compile(r"(?P<name>[\w.]+|\*)(?:\s+as\s+(?P<alias>\w+))?")
_BETWEEN_NAMES = re.compile(r"#[^\n]*|\\\n|[()]")


class Imported(NamedTuple):
    """A module, or, if `name` is set, a name of a module."""

    module: str
    level: int
    """Number of dots before the module's name."""
    name: str | None


class Import(NamedTuple):
    """One name of an import statement."""

    imported: Imported
    alias: str | None
    """The name after `as`."""


@lru_cache(maxsize=CACHED_FILES)
def imports(text: str) -> tuple[Import, ...]:
    """Return every import at any location of a file, including those of `*`."""
    source = text.removeprefix("\ufeff")
    return tuple(found for match in _statements(source) for found in _imports(match))


def _statements(text: str) -> Iterator[re.Match[str]]:
    end = 0
    while (word := text.find("import", end)) >= 0:
        match = _STATEMENT.match(text, _start(text, word))
        if match:
            yield match
        end = max(match.end() if match else 0, word + len("import"))


def _start(text: str, word: int) -> int:
    """Return where the statement begins that the word at an offset is a part of."""
    line = text.rfind("\n", 0, word) + 1
    while text[line - 2 : line] == "\\\n":
        line = text.rfind("\n", 0, line - 1) + 1
    return max(line, text.rfind(";", line, word) + 1, text.rfind(":", line, word) + 1)


def _imports(match: re.Match[str]) -> Iterator[Import]:
    module = "".join((match["module"] or "").split())
    level = len(module) - len(module.lstrip("."))
    for part in _BETWEEN_NAMES.sub(" ", match["names"] or match["modules"] or "").split(","):
        if not (found := _NAME.fullmatch(part.strip())):
            continue
        name, alias = found["name"], found["alias"]
        if match["modules"]:
            yield Import(Imported(name, 0, None), alias)
        else:
            yield Import(Imported(module[level:], level, name), alias)
