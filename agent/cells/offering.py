"""A model's tools for its notebook."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from pydantic import Field

from agent.cells.diagnosis import diagnosis, format_name, join_names
from agent.cells.notebook import Notebook, NotebookCell, Rerun
from agent.cells.running import is_unstored
from agent.conversation.conversation import prompt_beside
from agent.conversation.exchanges import Helper
from agent.session.session import Session
from agent.shortening import head_and_tail
from agent.tools.tool import Arguments, Refused, ToolResult

PROMPT = prompt_beside(__file__)
"""The paragraph about the notebook for the system message."""

_SHOWN_AGAIN = 2_000
"""Maximum length of the output of a cell that ran again, in characters."""
_LINE_CHARS = 60


class CellRun(Arguments):
    """Run Python as a new cell of your notebook. Its variables are there for later cells."""

    code: str = Field(min_length=1, description="the value of the last expression is shown")


class CellEdit(Arguments):
    """Replace the code of a cell. It runs with the next `cell_replay`."""

    cell: int
    code: str


class CellReplay(Arguments):
    """Run the stale cells again, and say whose output changed."""

    cell: int | None = Field(default=None, description="only this cell, and what it needs")


class Cells(Arguments):
    """List your cells, and which of them are stale."""


@dataclass(frozen=True)
class CellTool:
    """One tool on a notebook."""

    name: str
    arguments: type[Arguments]
    use: Callable[[Notebook, Session, Any], Awaitable[ToolResult]]

    async def __call__(self, notebook: Notebook, session: Session, asked: Any) -> ToolResult:
        """Use the tool when it is its turn. A wrong use is a result that is not ok."""
        async with notebook.turn:
            try:
                return await self.use(notebook, session, asked)
            except Refused as refusal:
                return ToolResult(str(refusal), ok=False)


async def cell_run(notebook: Notebook, session: Session, asked: CellRun) -> ToolResult:
    """Run a new cell. Return its output, with its variables or the reason of a failure."""
    known = notebook.stale
    done = await notebook.run(session, asked.code)
    *recovered, last = done
    parts = []
    if recovered:
        numbers = _numbers([run.cell for run in recovered])
        text = f"{numbers} ran again first, because their variables were lost"
        changed = [run.cell for run in recovered if not run.is_same]
        parts.append(f"{text}; not as before: {_numbers(changed)}" if changed else text)
    parts.append(_format_result(notebook, last.cell))
    if stale := [cell for cell in notebook.stale if cell not in [*known, last.cell]]:
        parts.append(f"stale now: {_numbers(stale)}. Run them with cell_replay.")
    return _result(parts, done)


async def cell_edit(notebook: Notebook, session: Session, asked: CellEdit) -> ToolResult:
    """Replace the code of a cell. Return the numbers of the stale cells."""
    stale = notebook.edit(asked.cell, asked.code)
    return ToolResult(f"stale: {_numbers(stale)}. Run them with cell_replay.")


async def cell_replay(notebook: Notebook, session: Session, asked: CellReplay) -> ToolResult:
    """Run the stale cells. Return whose output changed."""
    done = await notebook.replay(session, asked.cell)
    if not done:
        return ToolResult("nothing that this needs is stale")
    ran = [run.cell for run in done]
    parts = [f"ran: {_numbers(ran)}", *(_again(notebook, run) for run in done)]
    if notebook.stale:
        parts.append(f"still stale: {_numbers(notebook.stale)}")
    return _result(parts, done)


async def cells(notebook: Notebook, session: Session, asked: Cells) -> ToolResult:
    """Return a line for each cell: its state, its first line, what it uses and writes."""
    await notebook.look(session)
    lines = [_line(notebook, cell) for cell in notebook.cells]
    return ToolResult("\n".join(lines) or "there are no cells yet: use cell_run")


TOOLS = (
    CellTool("cell_run", CellRun, cell_run),
    CellTool("cell_edit", CellEdit, cell_edit),
    CellTool("cell_replay", CellReplay, cell_replay),
    CellTool("cells", Cells, cells),
)


def helpers(notebook: Notebook) -> list[Helper]:
    """Return the tools on one notebook, for a conversation."""
    return [_helper(tool, notebook) for tool in TOOLS]


def _helper(tool: CellTool, notebook: Notebook) -> Helper:
    async def use(asked: Any, session: Session) -> ToolResult:
        return await tool(notebook, session, asked)

    # None of them overtakes another of the same reply, as tools that only read would.
    return Helper(tool.name, tool.arguments, use, changes_files=True)


def _result(parts: list[str], done: list[Rerun]) -> ToolResult:
    records = [run.cell.record for run in done]
    return ToolResult(
        "\n".join(parts),
        ok=not records[-1].failed,
        changed=sorted({path for record in records for path in record.changed}),
        put_back=sorted({path for record in records for path in record.put_back}),
    )


def _format_result(notebook: Notebook, cell: NotebookCell) -> str:
    """Return the result of a cell that has just run."""
    record = cell.record
    wrote = [format_name(name) for name, place in sorted(record.writes.items()) if place]
    ending = f"wrote {join_names(wrote)}" if wrote else "wrote no variable"
    head = f"cell {cell.number} failed" if record.failed else f"cell {cell.number}: {ending}"
    return "\n".join([head, *_ending(notebook, cell), *_warnings(cell)])


def _ending(notebook: Notebook, cell: NotebookCell) -> list[str]:
    """Return the output of a cell, and why it failed."""
    record = cell.record
    parts = [record.output.strip("\n"), record.error.text.rstrip() if record.error else ""]
    parts += [record.ended, diagnosis(notebook, cell) if record.failed else ""]
    return [part for part in parts if part]


def _warnings(cell: NotebookCell) -> list[str]:
    places = sorted(cell.record.writes.items())
    lines = [
        f"`{format_name(name)}` is made again by this cell wherever it is used: {place[1:]}."
        for name, place in places
        if place and is_unstored(place) and not is_unstored(cell.record.reads.get(name))
    ]
    if cell.state == "stale":
        lines.append("It used what stale cells left: run them, and this cell, with cell_replay.")
    return lines


def _again(notebook: Notebook, run: Rerun) -> str:
    """Return the result of a cell that ran again."""
    if run.is_same:
        return f"cell {run.cell.number}: same output"
    text = "\n".join([*_ending(notebook, run.cell), *_warnings(run.cell)])
    outcome = "failed" if run.cell.record.failed else "its output changed"
    return f"cell {run.cell.number}: {outcome}\n{head_and_tail(text, _SHOWN_AGAIN)}"


def _line(notebook: Notebook, cell: NotebookCell) -> str:
    record = cell.record
    used: dict[int, list[str]] = {}
    for variable in notebook.get_used_variables(cell):
        used.setdefault(variable.writer.number, []).append(format_name(variable.name))
    parts = [f"{join_names(names)} of {number}" for number, names in sorted(used.items())]
    wrote = [format_name(name) for name, place in sorted(record.writes.items()) if place]
    first = cell.code.strip().partition("\n")[0][:_LINE_CHARS]
    line = f"{cell.number} {cell.state}: {first}"
    line += f" | uses {'; '.join(parts)}" if parts else ""
    line += f" | wrote {join_names(wrote)}" if wrote else ""
    return f"{line} | reads {join_names(record.files_read)}" if record.files_read else line


def _numbers(cells: list[NotebookCell]) -> str:
    return ", ".join(f"cell {cell.number}" for cell in cells) or "none"
