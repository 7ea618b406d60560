"""Debugging in Prefect's UI: the steps of an attempt as task runs of its flow run.

Only on request: a task run costs the server more than a step costs the journal.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from contextvars import ContextVar
from typing import Any

from prefect import task
from prefect.artifacts import acreate_markdown_artifact
from prefect.cache_policies import NO_CACHE
from prefect.client.schemas.objects import State
from prefect.states import Completed

from agent.models.protocol import ModelReply
from agent.session.steps import ActionResult, CutOff, Step
from agent.workspaces.protocol import CommandResult
from flows.display.steps import (
    asked_in_full,
    asked_in_line,
    output_of,
    said,
)
from flows.experiments.cells import Cell

NAME_CHARACTERS = 100

SHOWN_CHARACTERS = 8_000
"""Displayed characters of an input and of a result, half from each end."""

_MARK = "\n[… {} characters …]\n"

OnStep = ContextVar[Callable[[Cell, Step], None]]


@asynccontextmanager
async def shown_as_task_runs(on_step: OnStep) -> AsyncIterator[None]:
    """Record every step passed to `on_step` as a task run during the block.

    The name of a task run describes the work; its artifact holds the input and the result. Task
    runs begin after their steps, so the duration of a step is in the message of the task run's
    state.
    """
    steps: asyncio.Queue[Step | None] = asyncio.Queue()
    tell = on_step.get()

    def queue(cell: Cell, step: Step) -> None:
        tell(cell, step)
        steps.put_nowait(step)

    async def show() -> None:
        while (step := await steps.get()) is not None:
            await _step(step)

    showing = asyncio.create_task(show())
    before = on_step.set(queue)
    try:
        yield
    finally:
        on_step.reset(before)
        steps.put_nowait(None)
        await showing


def name(step: Step) -> str:
    """Return a step in one line: `model planner plan-1/0`, `command 3: pytest -q`."""
    where = f"{step.scope}/{step.seq}" if step.scope else str(step.seq)
    if step.kind == "model":
        return " ".join(filter(None, ["model", step.request.get("role"), where]))
    asked = asked_in_line(step.request)
    line = f"{step.kind} {where}: {asked}" if asked else f"{step.kind} {where}"
    return line if len(line) <= NAME_CHARACTERS else f"{line[: NAME_CHARACTERS - 1]}…"


def _run_name(parameters: dict[str, Any]) -> str:
    return name(parameters["step"])


@task(
    name="step",
    task_run_name=_run_name,  # type: ignore[arg-type]  # Prefect accepts such a function
    cache_policy=NO_CACHE,
    persist_result=False,
)
async def _step(step: Step) -> State[None]:
    await acreate_markdown_artifact(markdown=markdown(step), description=name(step))
    return Completed(message=_summary(step))


def markdown(step: Step) -> str:
    """Return the input and the result of a step as shortened Markdown."""
    return "\n\n".join([_summary(step), "**Input**", _input(step), "**Result**", _result(step)])


def _summary(step: Step) -> str:
    recorded = "recorded by an earlier run" if step.replayed else f"{step.duration_s:.2f} s"
    match step.result:
        case ModelReply(usage=usage):
            cost = "cost unknown" if usage.cost_usd is None else f"${usage.cost_usd:,.4f}"
            return f"{recorded}; {usage.input_tokens} + {usage.output_tokens} tokens, {cost}"
        case CommandResult(exit_code=exit_code, timed_out=True):
            return f"{recorded}; timed out, exit code {exit_code}"
        case CommandResult(exit_code=exit_code):
            return f"{recorded}; exit code {exit_code}"
        case CutOff(cut_off=what):
            return f"{recorded}; cut off: {what}"
        case ActionResult():
            return recorded


def _input(step: Step) -> str:
    """Return the input of a step; for a model call, only the new messages."""
    if step.kind != "model":
        return _block(asked_in_full(step.request))
    return "\n\n".join(
        f"_{message['role']}_\n\n{_block(said(message))}" for message in step.request["messages"]
    )


def _result(step: Step) -> str:
    match step.result:
        case ModelReply(message=message):
            return _block(said(message))
        case CommandResult(output=output):
            return _block(output)
        case ActionResult(content=content):
            return _block(output_of(content))
        case CutOff(cut_off=what):
            return _block(what)


def _block(text: str) -> str:
    """Return text as a code block whose fence is longer than any fence in the text."""
    if len(text) > SHOWN_CHARACTERS:
        half = SHOWN_CHARACTERS // 2
        text = text[:half] + _MARK.format(len(text) - 2 * half) + text[-half:]
    fence = "```"
    while fence in text:
        fence += "`"
    return f"{fence}\n{text.encode('utf-8', 'replace').decode()}\n{fence}"
