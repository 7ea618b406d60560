"""Tools that read: files, search results, and definitions and uses of names."""

import re
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypedDict, TypeVar

from pydantic import Field

from agent.index.sources import LINE_END, lines, query
from agent.index.symbols import Definition, Use
from agent.tools.editing import decode
from agent.tools.protection import confine, confine_file
from agent.tools.tool import TEXT, Arguments, Refused, Tool, ToolResult, ToolSettings, list_of
from agent.workspaces import Workspace

_TIMEOUT_S = 60.0
_LINE_CHARS = 500

T = TypeVar("T", Definition, Use)

_MOST_LINES = 50
_MATCH = re.compile(r"([^\0]+)\0(\d+)[\0:](.*?)\r?(?:\n|\Z)")
"""A file's name, a line's number, and the line. Some releases of git have a colon for the second
zero."""

# Search all files that git does not ignore, in path order, whatever git's settings are.
_GREP = (
    "GIT_LITERAL_PATHSPECS=1 GIT_OPTIONAL_LOCKS=0 git --no-pager -c safe.directory='*'"
    " -c grep.column=false -c grep.fullName=false -c submodule.recurse=false"
    " grep -nzIP --untracked --no-color -e {pattern} -- {path}"
)


class Read(Arguments):
    """Show a text file with line numbers, or what a folder holds."""

    path: str = Field(description="relative to the repository's root")
    start: int | None = Field(default=None, ge=1, description="first line, 1 by default")
    end: int | None = Field(default=None, ge=1, description="last line, inclusive")


class Search(Arguments):
    """Find the lines that match a Perl regular expression, in all files that git does not
    ignore."""

    pattern: str = Field(min_length=1, description="such as `def load\\b`; within one line")
    path: str = Field(default=".", description="file or folder to search")


class MatchedLine(TypedDict):
    """A line that a search has found, without its end."""

    path: str
    line: int
    text: str


class Symbol(TypedDict):
    """A definition. Lines are from 1, and `end` is the last one."""

    path: str
    line: int
    end: int
    kind: str
    name: str
    signature: str
    doc: str


class SymbolUse(TypedDict):
    """A place where symbols are called or used, and their definitions if these are known.

    `inside` is the name of the definition around it.
    """

    path: str
    line: int
    text: str
    inside: str
    targets: list[Symbol]
    is_call: bool
    is_certain: bool


# The descriptions say Python, because recorded calls of models contain them: others would divide
# attempts from before the index had more languages from their records.


class FindDefinition(Arguments):
    """Find where a Python class, function, method or variable is defined."""

    symbol: str = Field(min_length=1, description="such as `load` or `Reader.load`")


class FindCallers(Arguments):
    """Find what calls a Python function, method or class."""

    symbol: str = Field(min_length=1, description="such as `load` or `Reader.load`")


class FindCallees(Arguments):
    """Find what a Python function or method calls."""

    symbol: str = Field(min_length=1, description="such as `load` or `Reader.load`")


async def read(workspace: Workspace, settings: ToolSettings, asked: Read) -> ToolResult:
    """Return the requested lines with their numbers."""
    file = await confine_file(workspace, asked.path)
    path, content = file.path, file.content
    if content is None:
        return await _folder(workspace, asked.path, path)
    text = decode(content, asked.path).content
    rows = lines(text)
    if not rows:
        return ToolResult(f"{asked.path} is an empty file", read=[path], data="")
    start, end = asked.start or 1, min(asked.end or len(rows), len(rows))
    if start > end:
        last = asked.end or "the end"
        raise Refused(f"{asked.path} has {len(rows)} lines; from {start} to {last} there are none")
    width = len(str(end))
    numbered = [f"{n:>{width}}\t{line}" for n, line in enumerate(rows[start - 1 : end], start)]
    head = f"{asked.path}, lines {start} to {end} of {len(rows)}"
    cuts = [0, *(end.end() for end in LINE_END.finditer(text)), len(text)]
    data = text[cuts[start - 1] : cuts[end]]
    return ToolResult("\n".join([head, *numbered]), read=[path], data=data)


async def _folder(workspace: Workspace, name: str, path: str) -> ToolResult:
    """Return the content of a folder. Subfolders end in a slash."""
    command = f"[[ -d {shlex.quote('./' + path)} ]] && ls -1Ap -- {shlex.quote('./' + path)}"
    listed = await workspace.run(command, timeout_s=_TIMEOUT_S)
    if listed.exit_code:
        raise Refused(f"there is no file {name}; search for its name, or read its folder")
    text = f"{name} is a folder with\n{listed.output or 'nothing in it'}"
    return ToolResult(text, read=[f"{path}/"], data=listed.output)


async def search(workspace: Workspace, settings: ToolSettings, asked: Search) -> ToolResult:
    """Return `path:line:text` for every match. Long lines are cut for readers."""
    path = await confine(workspace, asked.path)
    matches = await _matching(workspace, asked.pattern, path)
    text = _as_text(matches) or f"no line in {asked.path} matches {asked.pattern}"
    return ToolResult(text, read=_files(matches), data=matches)


async def _matching(workspace: Workspace, pattern: str, path: str) -> list[MatchedLine]:
    """Return every line that matches."""
    command = _GREP.format(pattern=shlex.quote(pattern), path=shlex.quote(path))
    done = await workspace.run(command, timeout_s=_TIMEOUT_S)
    if done.timed_out:
        raise Refused(f"the search took longer than {_TIMEOUT_S:.0f} s; search a folder")
    if done.exit_code > 1:
        raise Refused(f"cannot search for {pattern}: {done.output.strip()}")
    return [MatchedLine(path=p, line=int(n), text=t) for p, n, t in _MATCH.findall(done.output)]


def _files(results: Iterable[Mapping[str, Any]]) -> list[str]:
    return sorted({result["path"] for result in results})


def _as_text(matches: Iterable[MatchedLine]) -> str:
    return "\n".join(_cut(f"{each['path']}:{each['line']}:{each['text']}") for each in matches)


def _cut(line: str) -> str:
    if len(line) <= _LINE_CHARS:
        return line
    return f"{line[:_LINE_CHARS]} [... {len(line) - _LINE_CHARS} more characters]"


async def find_definition(
    workspace: Workspace, settings: ToolSettings, asked: FindDefinition
) -> ToolResult:
    """Return every definition of that name."""
    results = await query(workspace, lambda index: index.symbols.definitions(asked.symbol))
    return await _list_results(workspace, results, definition_line, "definition", asked.symbol)


async def find_callers(
    workspace: Workspace, settings: ToolSettings, asked: FindCallers
) -> ToolResult:
    """Return every known use of the symbol."""
    results = await query(workspace, lambda index: index.symbols.callers(asked.symbol))
    return await _list_results(workspace, results, caller_line, "caller", asked.symbol)


async def find_callees(
    workspace: Workspace, settings: ToolSettings, asked: FindCallees
) -> ToolResult:
    """Return everything that the symbol uses and the repository defines."""
    results = await query(workspace, lambda index: index.symbols.callees(asked.symbol))
    return await _list_results(workspace, results, callee_line, "callee", asked.symbol)


async def _list_results(
    workspace: Workspace,
    results: Sequence[T],
    as_line: Callable[[T], str],
    kind: str,
    symbol: str,
) -> ToolResult:
    """Return the results of the index, or else, for readers, the lines that contain the name.

    For example, the index does not contain names of other languages.
    """
    if results:
        data = [_symbol(each) if isinstance(each, Definition) else _place(each) for each in results]
        return ToolResult("\n".join(map(as_line, results)), read=_files(data), data=data)
    unknown = f"no {kind} of {symbol} is known"
    name = re.split(r"[.:/#]", symbol)[-1]
    matches = await _matching(workspace, rf"(?<!\w)\Q{name}\E(?!\w)", ".") if name else []
    if not matches:
        return ToolResult(f"{unknown}, and no line contains the name", data=[])
    left_out = len(matches) - _MOST_LINES
    more: list[str] = [f"[... {left_out} more; search for the name]"] if left_out > 0 else []
    head = f"{unknown}; these lines contain the name:"
    first = matches[:_MOST_LINES]
    return ToolResult("\n".join([head, _as_text(first), *more]), read=_files(first), data=[])


def _symbol(found: Definition) -> Symbol:
    return Symbol(
        path=found.path,
        line=found.start,
        end=found.end,
        kind=found.kind,
        name=found.full_name,
        signature=found.signature,
        doc=found.doc,
    )


def _place(use: Use) -> SymbolUse:
    return SymbolUse(
        path=use.path,
        line=use.line,
        text=use.text,
        inside=use.inside.full_name,
        targets=list(map(_symbol, use.targets)),
        is_call=use.is_call,
        is_certain=use.is_certain,
    )


READING = (
    Tool("read", Read, read, value=TEXT),
    Tool("search", Search, search, value=list_of(MatchedLine)),
    Tool("find_definition", FindDefinition, find_definition, value=list_of(Symbol)),
    Tool("find_callers", FindCallers, find_callers, value=list_of(SymbolUse, Symbol)),
    Tool("find_callees", FindCallees, find_callees, value=list_of(SymbolUse, Symbol)),
)


def definition_line(found: Definition) -> str:
    """Format as `src/io.py:12-40 method io.Reader.load: def load(self, path) -- Read a file.`"""
    place = f"{found.path}:{found.start}-{found.end} {found.kind} {found.full_name}"
    header = f": {found.signature}" if found.signature else ""
    return f"{place}{header}{f' -- {found.doc}' if found.doc else ''}"


def caller_line(use: Use) -> str:
    """Return a line such as `src/cli.py:7 in cli.main: reader.load`"""
    return f"{use.path}:{use.line} in {use.inside.full_name}: {use.text}{_kind(use)}"


def callee_line(use: Use) -> str:
    """Return a line such as `src/cli.py:7: reader.load is io.Reader.load (src/io.py:12)`"""
    targets = ", ".join(f"{found.full_name} ({found.path}:{found.line})" for found in use.targets)
    return f"{use.path}:{use.line}: {use.text} is {targets}{_kind(use)}"


def _kind(use: Use) -> str:
    certainty = "" if use.is_certain else "possibly"
    call = "" if use.is_call else "not a call"
    notes = ", ".join(note for note in (certainty, call) if note)
    return f" ({notes})" if notes else ""
