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

from agent.session.steps import Step
from agent.shortening import shorten_middle
from flows.display.steps import of_step
from flows.experiments.cells import Cell
from flows.server.retry import patiently
from reports.steps import StepView

NAME_CHARACTERS = 100

SHOWN_CHARACTERS = 8_000
"""Displayed characters of an input and of a result, half from each end."""

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
            await _step(of_step(step))

    showing = asyncio.create_task(show())
    before = on_step.set(queue)
    try:
        yield
    finally:
        on_step.reset(before)
        steps.put_nowait(None)
        await showing


def name(shown: StepView) -> str:
    """Return a step in one line: `model planner plan-1/0`, `command 3: pytest -q`."""
    kind, place = shown.origin.kind, shown.origin.place
    own = "" if shown.name == kind else shown.name
    if kind == "model":
        return " ".join(filter(None, [kind, own, place]))
    asked = f"{own} {shown.did}".strip()
    line = f"{kind} {place}: {asked}" if asked else f"{kind} {place}"
    return line if len(line) <= NAME_CHARACTERS else f"{line[: NAME_CHARACTERS - 1]}…"


def _run_name(parameters: dict[str, Any]) -> str:
    return name(parameters["shown"])


@task(
    name="step",
    task_run_name=_run_name,  # type: ignore[arg-type]  # Prefect accepts such a function
    cache_policy=NO_CACHE,
    persist_result=False,
)
async def _step(shown: StepView) -> State[None]:
    await patiently(acreate_markdown_artifact, markdown=markdown(shown), description=name(shown))
    return Completed(message=_summary(shown))


def markdown(shown: StepView) -> str:
    """Return the input and the result of a step as shortened Markdown."""
    given = [f"_{message.role}_\n\n{_block(message.text)}" for message in shown.messages]
    if shown.origin.kind != "model":
        given = [_block(shown.asked)]
    result = _block(shown.result)
    return "\n\n".join([_summary(shown), "**Input**", *given, "**Result**", result])


def _summary(shown: StepView) -> str:
    facts = shown.facts
    if shown.origin.replayed:
        facts = ("recorded by an earlier run", *facts)
    return "; ".join(facts)


def _block(text: str) -> str:
    """Return text as a code block whose fence is longer than any fence in the text."""
    text = shorten_middle(text, SHOWN_CHARACTERS)
    fence = "```"
    while fence in text:
        fence += "`"
    return f"{fence}\n{text.encode('utf-8', 'replace').decode()}\n{fence}"
