"""The trajectories that a report links to, each as one self-contained page beside the report."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reports.analysis.differences import read_sides
from reports.format import (
    count,
    mean,
    plural,
    usd,
)
from reports.lake import unit_file
from reports.losses import FAILURES
from reports.rendering.templates import environment
from reports.types import Cell, Report

if TYPE_CHECKING:
    from upath import UPath

FOLDER = "trajectories"
"""Name of the folder beside the report's page."""

Row = dict[str, Any]


@dataclass(frozen=True)
class Part:
    """One text of a step, and its kind."""

    title: str
    text: str


@dataclass(frozen=True)
class ShownStep:
    """One step as the page shows it."""

    number: int
    place: str
    """Scope and number within the scope, in the notation of `durabench trace`."""
    kind: str
    role: str
    asked: tuple[Part, ...]
    """New messages of a model call. Empty for other steps."""
    done: tuple[Part, ...]
    facts: tuple[str, ...]
    """Tokens and cost, exit code, and time of the step."""


def find_trajectories(lake: Path | UPath, report: Report) -> frozenset[str]:
    """Return the attempts that the report refers to and whose steps are in the lake.

    Imports without steps have none, nor has an attempt that ended before its first step.
    """
    return frozenset(
        cell.attempt_id
        for cell in _referred(report)
        if cell.attempt_id and _is_file_name(cell.attempt_id) and _steps(lake, report, cell)
    )


def render_trajectories(lake: Path | UPath, report: Report) -> Iterator[tuple[str, str]]:
    """Yield the file name and HTML text of the page of each attempt in `report.trajectories`."""
    template = environment().get_template("trajectory.html.j2")
    for cell in _referred(report):
        if cell.attempt_id in report.trajectories:
            yield (
                file_name(cell.attempt_id),
                template.render(
                    cell=cell,
                    failure=FAILURES[cell.failure] if cell.failure else "resolved",
                    report=report,
                    steps=_read(lake, report, cell),
                    patch=_patch(lake, report, cell),
                ),
            )


def file_name(attempt_id: str) -> str:
    """Return the file name of an attempt's page."""
    return f"{attempt_id}.html"


def _referred(report: Report) -> tuple[Cell, ...]:
    """Return the cells whose attempts are named on the page, each once."""
    differences = [one for side in read_sides(report) for one in side.shown]
    cells = [cell for one in differences for cell in (one.winner, one.loser)]
    examples = {example.attempt_id for example in report.failures.examples}
    cells += [cell for cell in report.cells if cell.attempt_id in examples]
    return tuple({cell.attempt_id: cell for cell in cells if cell.attempt_id}.values())


def _is_file_name(attempt_id: str) -> bool:
    """Return True if the id is safe as a file name. An id that could leave the folder is not."""
    return re.fullmatch(r"\w[\w.-]*", attempt_id) is not None


def _steps(lake: Path | UPath, report: Report, cell: Cell) -> bool:
    return _unit(lake, "steps", report, cell).exists()


def _read(lake: Path | UPath, report: Report, cell: Cell) -> tuple[ShownStep, ...]:
    calls = {
        (row["scope"], row["seq"]): row for row in _rows(_unit(lake, "llm_calls", report, cell))
    }
    steps = sorted(_rows(_unit(lake, "steps", report, cell)), key=_when)
    return tuple(
        _shown(number, row, calls.get((row["scope"], row["seq"])))
        for number, row in enumerate(steps, start=1)
    )


def _patch(lake: Path | UPath, report: Report, cell: Cell) -> str:
    """Return the patch that the attempt left, or `""` if there is none."""
    return "".join(row["model_patch"] for row in _rows(_unit(lake, "predictions", report, cell)))


def _unit(lake: Path | UPath, table: str, report: Report, cell: Cell) -> Path | UPath:
    return unit_file(lake, table, report.source.experiment, cell.arm, str(cell.attempt_id))


def _rows(path: Path | UPath) -> list[Row]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return []
    rows: list[Row] = pq.ParquetFile(pa.BufferReader(content)).read().to_pylist()
    return rows


def _when(row: Row) -> tuple[datetime, str, int]:
    """Return the sort key that orders steps of parallel branches by start time."""
    return row["started_at"] or datetime.min.replace(tzinfo=UTC), row["scope"], row["seq"]


def _shown(number: int, row: Row, call: Row | None) -> ShownStep:
    request, result = json.loads(row["request"]), json.loads(row["result"])
    is_model = row["kind"] == "model"
    return ShownStep(
        number=number,
        place=f"{row['scope']}/{row['seq']}" if row["scope"] else str(row["seq"]),
        kind=row["kind"],
        role=call["role"] if call else "",
        asked=tuple(_asked(request)) if is_model else (),
        done=tuple(_answer(result) if is_model else _work(request, result)),
        facts=tuple(_facts(row, call)),
    )


def _facts(row: Row, call: Row | None) -> Iterator[str]:
    if call:
        cached = (
            f" ({count(call['cache_read_tokens'])} cached)" if call["cache_read_tokens"] else ""
        )
        if call["input_tokens"] is None:
            yield "tokens unknown"
        else:
            yield f"{plural(call['input_tokens'], 'token')} in{cached}"
            yield f"{count(call['output_tokens'])} out"
        yield "cost unknown" if call["cost_usd"] is None else usd(call["cost_usd"])
    if row["exit_code"] is not None:
        yield f"exit code {row['exit_code']}"
    if row["timed_out"]:
        yield "timed out"
    if row["duration_s"] is not None:
        yield mean(row["duration_s"], " s")


def _asked(request: Row) -> Iterator[Part]:
    """Yield the messages that are new to the model. Its own replies are at the step before."""
    for message in request.get("messages") or ():
        if message.get("role") != "assistant":
            yield Part(str(message.get("role")), _text(message.get("content")))


def _answer(message: Any) -> Iterator[Part]:
    if not isinstance(message, dict) or "cut_off" in message:
        yield Part("", _text(message))
        return
    if message.get("content"):
        yield Part("", _text(message["content"]))
    for asked in message.get("tool_calls") or ():
        function = asked.get("function") or {}
        yield Part(str(function.get("name")), _arguments(function.get("arguments")))


def _work(request: Row, result: Any) -> Iterator[Part]:
    if "action" in request:
        arguments = {name: value for name, value in request.items() if name != "action"}
        yield Part(str(request["action"]), _arguments(arguments))
    else:
        yield Part("command", _text(request.get("command")))
    output = result.get("output", result) if isinstance(result, dict) else result
    yield Part("output", _text(output))


def _arguments(given: Any) -> str:
    """Format one argument per line, with text values unchanged."""
    if isinstance(given, str):
        try:
            given = json.loads(given)
        except ValueError:
            return str(given)
    if not isinstance(given, dict):
        return _text(given)
    return "\n".join(f"{name}: {_text(value)}" for name, value in given.items())


def _text(value: Any) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=1)
