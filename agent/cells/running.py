"""One cell as a step in the workspace."""

import ast
import json
import secrets
import shlex
import symtable
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from agent.conversation.offering import use_tool
from agent.session.session import Session
from agent.shortening import head_and_tail
from agent.tools import Protection, Toolbox, ToolResult, ToolSettings
from agent.tools.tool import Arguments, Tool
from agent.workspaces import CommandResult, Workspace

Places = dict[str, str | None]
"""By variable, the digest of its stored value, or `!` and the reason why it is not stored.

None: read, but no cell had written it; or deleted. A name with `@` is a class that a cell defined.
"""


def is_unstored(place: str | None) -> bool:
    """Return True for the place of a value that cannot be stored."""
    return place is not None and place.startswith("!")


class CellFailure(BaseModel):
    """The error that ended a cell."""

    model_config = ConfigDict(frozen=True)

    text: str
    """The traceback."""
    kind: str = ""
    name: str = ""
    """The name that has no value, if that is the error."""
    importable: bool = False
    """True if a module of that name, or with that usual abbreviation, can be imported."""


class CellRecord(BaseModel):
    """The effects of one run of a cell."""

    model_config = ConfigDict(frozen=True)

    output: str = ""
    error: CellFailure | None = None
    reads: Places = {}
    writes: Places = {}
    files_read: dict[str, str | None] = {}
    """Digests of files under the root before the cell changed them; None: there was none."""
    files_written: dict[str, str | None] = {}
    """Digests afterwards; None: it was removed."""
    programs: bool = False
    """True if it started other programs, whose files nothing sees."""
    tree: str = ""
    """The work tree after it, if it started programs."""
    lost: list[str] = []
    """Variables that it needs and the store no longer has. Nothing else is set then."""
    lost_by: dict[int, list[str]] = {}
    """The same for cells that run again within it, by their numbers."""
    changed: list[str] = []
    """Files that the step changed, as for any tool."""
    put_back: list[str] = []
    """Protected files that it had changed."""
    ended: str = ""
    """The reason why the record is missing, or ''."""

    @property
    def failed(self) -> bool:
        """True if the cell did not end by itself and without an error."""
        return self.error is not None or bool(self.ended)


class Look(BaseModel):
    """Files of the repository as they are now."""

    model_config = ConfigDict(frozen=True)

    files: dict[str, str | None] = {}
    tree: str = ""


NOT_RUN = CellRecord(ended="it was not run")


_INSIDE = Path(__file__).with_name("inside")
_PARTS = ("watching", "values", "heap", "making", "kernel")
_BLOCKS = (ast.If, ast.For, ast.AsyncFor, ast.While, ast.Try, ast.TryStar, ast.With, ast.Match)
_TOO_OLD = 86
_NOT_FOUND = 127
_KEPT_BYTES = 8 * 2**20
"""Half of it is for the record, which comes last."""
_OUTPUT_CHARS = 50_000

# The folder of the repository is not on the path yet, so that no module of it can take the place of
# one that the kernel imports. It has to run on any Python.
_START = f"""
import sys
if sys.version_info < (3, 8):
    sys.stdout.write(sys.version.split()[0])
    sys.exit({_TOO_OLD})
here = sys.path[:1] == [""] and sys.path.pop(0)
import json, types
given = json.load(sys.stdin)
kernel = sys.modules["durabench_cells"] = types.ModuleType("durabench_cells")
exec(compile(given.pop("kernel"), "<kernel>", "exec"), vars(kernel))
sys.path[:0] = [""] if here == "" else []
kernel.main(given)
"""


class Maker(Arguments):
    """A cell that runs again within another one, for what it left and cannot be stored."""

    cell: int
    code: str
    """As of its last run."""
    variables: dict[str, str]
    """Places of what it read then."""
    unstored: dict[str, int]
    """Those of them that cannot be stored, with the numbers of their makers."""


class _Cell(Arguments):
    """Run a cell."""

    cell: int
    code: str
    variables: dict[str, str]
    """Places of the variables that cells before it have left."""
    keeps_files: bool = True
    """False to recover lost variables: changes of the work tree are undone."""
    unstored: dict[str, int] = Field(default_factory=dict)
    """Those of the variables that cannot be stored, with the numbers of their makers."""
    makers: list[Maker] = Field(default_factory=list)
    """These cells, and those that they need in turn."""


class _Look(Arguments):
    """Read the digests of files."""

    files: list[str]
    programs: bool
    """True if the tree is asked for."""


class Kernel:
    """Runs cells in the workspace of a session, each as one step."""

    def __init__(self, settings: ToolSettings, protection: Protection) -> None:
        """Use the time limits and the protection of tests of the agent's other tools."""
        running = Tool("cell", _Cell, _run, changes_files=True)
        looking = Tool("look", _Look, _look)
        self._toolbox = Toolbox([running, looking], settings=settings, protection=protection)

    async def run(self, session: Session, **arguments: Any) -> CellRecord:
        """Run a cell. The arguments are the fields of `_Cell`."""
        for name in ("unstored", "makers"):
            if not arguments.get(
                name
            ):  # so that the request equals the request of earlier releases
                arguments.pop(name, None)
        result = await use_tool(session, self._toolbox, "cell", arguments)
        record = _parse(CellRecord, result) or CellRecord(ended=result.output)
        files = {"changed": result.changed, "put_back": result.put_back}
        return record.model_copy(update=files)

    async def look(self, session: Session, files: list[str], *, programs: bool) -> Look:
        """Return the files as they are now."""
        arguments = {"files": files, "programs": programs}
        result = await use_tool(session, self._toolbox, "look", arguments)
        return _parse(Look, result) or Look()


R = TypeVar("R", bound=BaseModel)


def _parse(kind: type[R], result: ToolResult) -> R | None:
    """Return the record of a step, or None for a step without one."""
    try:
        return kind.model_validate_json(result.output)
    except ValidationError:
        return None


async def _run(workspace: Workspace, settings: ToolSettings, asked: _Cell) -> ToolResult:
    before = None if asked.keeps_files else await workspace.checkpoint()
    program_input = {
        "cell": asked.cell,
        "code": asked.code,
        "variables": asked.variables,
        "unstored": asked.unstored,
        "makers": [maker.model_dump() for maker in asked.makers],
        "needs": needs(asked.code),
    }
    record = await _record(workspace, settings, program_input)
    if before is not None and await workspace.tree() != before.tree:
        await workspace.restore(before)
    if record.programs:
        record = record.model_copy(update={"tree": await workspace.tree()})
    text = record.model_dump_json(exclude_defaults=True)
    return ToolResult(text, ok=not record.failed, read=sorted(record.files_read))


def needs(code: str) -> list[str]:
    """Return the names of the cells before that the text of a cell may use.

    A name is left out if a statement outside of all blocks binds it first.
    """
    names: set[str] = set()
    bound: set[str] = set()
    try:
        for statement in ast.parse(code).body:
            table = symtable.symtable(ast.unparse(statement), "<cell>", "exec")
            augmented = {  # `name += 1` counts as bound
                node.target.id
                for node in ast.walk(statement)
                if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name)
            }
            names |= {*_globals(table), *augmented} - bound
            if not isinstance(statement, _BLOCKS):
                bound |= {
                    symbol.get_name()
                    for symbol in table.get_symbols()
                    if symbol.is_assigned() or symbol.is_imported()
                }
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # or of another version
        return []
    return sorted(names)


def _globals(table: symtable.SymbolTable) -> Iterator[str]:
    """Yield the global names that a piece of code or a function in it reads."""
    is_inner = table.get_type() != "module"
    for symbol in table.get_symbols():
        if symbol.is_referenced() and (symbol.is_global() or not is_inner):
            yield symbol.get_name()
    for inner in table.get_children():
        yield from _globals(inner)


async def _look(workspace: Workspace, settings: ToolSettings, asked: _Look) -> ToolResult:
    tree = await workspace.tree() if asked.programs else ""
    files: dict[str, str | None] = {}
    if asked.files:
        program_input = {"code": None, "files": asked.files}
        _, _, report = await _execute(workspace, settings, program_input)
        files = report["files"] if report else {}
    return ToolResult(Look(files=files, tree=tree).model_dump_json())


async def _record(
    workspace: Workspace, settings: ToolSettings, given: dict[str, Any]
) -> CellRecord:
    """Run the kernel. Return its record, or the reason why there is none."""
    done, printed, report = await _execute(workspace, settings, given)
    output = head_and_tail(printed, _OUTPUT_CHARS)
    if report is not None:
        with suppress(ValidationError):  # a cell can reach the kernel in its process
            return CellRecord.model_validate({**report, "output": output})
    return CellRecord(output=output, ended=_reason(done, printed, settings.command_timeout_s))


async def _execute(
    workspace: Workspace, settings: ToolSettings, given: dict[str, Any]
) -> tuple[CommandResult, str, dict[str, Any] | None]:
    """Run the kernel. Return the command, the output of the cell, and the report of the kernel."""
    mark = secrets.token_hex(16)
    text = json.dumps({"kernel": _kernel(), "mark": mark, "root": workspace.root, **given})
    # Sets keep their order from run to run. A module that is edited twice within a second is read
    # again, because no bytecode of it is written.
    command = (
        "PYTHONHASHSEED=0 $(command -v python || command -v python3 || echo python) "
        f"-B -c {shlex.quote(_START)} <<'{mark}'\n{text}\n{mark}"
    )
    done = await workspace.run(
        command, timeout_s=settings.command_timeout_s, max_output_bytes=_KEPT_BYTES
    )
    printed, mark_found, report = done.output.partition(f"\n{mark} ")
    try:
        return done, printed, _plain(json.loads(report)) if mark_found else None
    except ValueError:  # it ended while it was writing
        return done, printed, None


def _plain(told: Any) -> Any:
    """Return JSON whose texts can be stored: a cell may raise or name anything."""
    if isinstance(told, str):
        return told.encode("utf-8", "replace").decode().replace("\0", "?")
    if isinstance(told, dict):
        return {_plain(name): _plain(value) for name, value in told.items()}
    return [_plain(value) for value in told] if isinstance(told, list) else told


def _reason(done: CommandResult, printed: str, limit_s: float) -> str:
    """Return the reason why a cell has no record."""
    note = "Its variables were not kept"
    if done.timed_out:
        return f"the cell took longer than {limit_s:.0f} s and was ended. {note}"
    if done.exit_code == _TOO_OLD:
        return f"cells need Python 3.8 or newer, and this repository's is {printed.strip()}"
    if done.exit_code == _NOT_FOUND:
        return "cells need Python, and there is none in this workspace"
    return f"the interpreter ended before the cell did, with exit code {done.exit_code}. {note}"


@cache
def _kernel() -> str:
    """Return the program that runs in the workspace."""
    return "\n".join((_INSIDE / f"{name}.py").read_text(encoding="utf-8") for name in _PARTS)
