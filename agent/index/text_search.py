"""Search of text in every file of a repository, for what a symbol index does not know."""

import bisect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from time import monotonic

import regex  # type: ignore[import-untyped]

from agent.index.sources import lines
from agent.paths import is_test_file

MOST_MATCHES = 100
MAX_LINE_CHARS = 300
TIME_LIMIT_S = 10.0


@dataclass(frozen=True, slots=True)
class Match:
    """A line in which a match begins, with the lines around it."""

    path: str
    line: int
    """1-based."""
    text: str
    """The line, without its end; a long one is cut."""
    before: tuple[str, ...]
    after: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SearchResult:
    """What was found, as far as there was room."""

    matches: tuple[Match, ...]
    """Code before tests before other files, then by path and line."""
    counts: Mapping[str, int]
    """How many lines match in each file, those without room among `matches` included."""
    note: str = ""
    """What the caller should know: that the pattern was taken literally, or time ran out."""


def search(
    texts: Mapping[str, str],
    pattern: str,
    *,
    path: str = "",
    literal: bool = False,
    ignore_case: bool = False,
    context: int = 0,
    most: int = MOST_MATCHES,
    time_limit_s: float = TIME_LIMIT_S,
) -> SearchResult:
    """Lines that a regular expression matches, one match a line at most.

    `^` and `$` are the ends of a line. A pattern that is no regular expression is looked for
    literally, with a note. `path` is a file, a folder, or a pattern such as `src/*.js`. A note
    says where the time limit ended the search; no pattern can keep it from ending.
    """
    compiled, note = _compiled(pattern, literal=literal, ignore_case=ignore_case)
    deadline = monotonic() + time_limit_s
    matches: list[Match] = []
    counts: dict[str, int] = {}
    for name in sorted(filter(lambda name: _is_within(name, path), texts), key=_order):
        content = lines(texts[name])
        try:
            found = _matching(compiled, content, deadline - monotonic())
        except TimeoutError:
            note = f"the search took more than {time_limit_s:g} s and ended at {name}"
            break
        if found:
            counts[name] = len(found)
            room = most - len(matches)
            matches += (_match(name, content, index, context) for index in found[:room])
    return SearchResult(tuple(matches), counts, note)


def _compiled(pattern: str, *, literal: bool, ignore_case: bool) -> tuple[regex.Pattern[str], str]:
    flags = regex.MULTILINE | (regex.IGNORECASE if ignore_case else 0)
    if not literal:
        try:
            return regex.compile(pattern, flags), ""
        except regex.error as error:
            note = f"not a regular expression ({error}), so it was looked for literally"
            return regex.compile(regex.escape(pattern), flags), note
    return regex.compile(regex.escape(pattern), flags), ""


def _matching(compiled: regex.Pattern[str], content: Sequence[str], time_s: float) -> list[int]:
    """The indices of the lines in which a match begins.

    Raises:
        TimeoutError: it takes longer than `time_s`.
    """
    if time_s <= 0:
        raise TimeoutError
    starts, start = [], 0
    for line in content:
        starts.append(start)
        start += len(line) + 1
    positions = (m.start() for m in compiled.finditer("\n".join(content), timeout=time_s))
    found = dict.fromkeys(bisect.bisect_right(starts, position) - 1 for position in positions)
    return [index for index in found if index >= 0]


def _match(path: str, content: Sequence[str], index: int, context: int) -> Match:
    return Match(
        path=path,
        line=index + 1,
        text=_cut(content[index]),
        before=tuple(map(_cut, content[max(0, index - context) : index])),
        after=tuple(map(_cut, content[index + 1 : index + 1 + context])),
    )


def _cut(line: str) -> str:
    return line if len(line) <= MAX_LINE_CHARS else f"{line[: MAX_LINE_CHARS - 1]}…"


def _is_within(name: str, path: str) -> bool:
    wanted = path.removeprefix("./").rstrip("/")
    return wanted in ("", ".", name) or name.startswith(f"{wanted}/") or fnmatchcase(name, wanted)


def _order(name: str) -> tuple[int, str]:
    if is_test_file(name):
        return 1, name
    return (0 if name.endswith(_CODE) else 2), name


_CODE = (
    ".py", ".pyi", ".pyx", ".js", ".jsx", ".mjs", ".cjs", ".ts", ".tsx", ".vue", ".svelte", ".c",
    ".h", ".cc", ".cpp", ".hpp", ".rs", ".go", ".java", ".kt", ".rb", ".php", ".cs", ".swift",
)  # fmt: skip
