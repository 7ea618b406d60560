"""Functions in processes of their own, below a flow run."""

import asyncio
import os
import signal
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
from prefect import flow
from prefect.context import FlowRunContext

from agent.errors import Interrupted, LeaseHeld
from agent.workspaces import ownership
from flows.experiments.stop import Stop
from flows.server.processes import ProcessDied, run_below
from tests.waiting import until

pytestmark = [pytest.mark.usefixtures("prefect"), pytest.mark.slow]

Do = Callable[..., Coroutine[Any, Any, Any]]


@flow
async def parent(do: Do, arguments: tuple[object, ...], stop: Stop) -> Any:
    return await run_below(do, *arguments, stop=stop)


async def run(do: Do, *arguments: object, stop: Stop | None = None) -> Any:
    """Run a function in a process of its own. Return its result."""
    return await parent(do, arguments, stop or Stop())


async def whereabouts(variable: str, *, stop: Stop) -> tuple[int, str | None, str | None]:
    """Process, flow run, and a variable of the environment."""
    context = FlowRunContext.get()
    run = context.flow_run if context is not None else None
    return os.getpid(), str(run and run.name), os.environ.get(variable)


async def held(name: str, *, stop: Stop) -> None:
    raise LeaseHeld("it is held", name)


class Choosy(Exception):
    """An error that cannot be unpickled."""

    def __init__(self, one: int, other: int) -> None:
        super().__init__(f"{one} and {other}")


async def choose(*, stop: Stop) -> None:
    raise Choosy(1, 2)


async def die(number: int, *, stop: Stop) -> None:
    os.kill(os.getpid(), number)
    await asyncio.Event().wait()


async def until_stopped(began: Path, *, stop: Stop) -> str:
    """Return after a stop request of the parent."""
    began.write_text(ownership.process())
    await stop.within(300)
    return "stopped"


async def for_ever(began: Path, *, stop: Stop) -> None:
    """Ignore stop requests."""
    began.write_text(ownership.process())
    await asyncio.Event().wait()


async def asked_to_stop(do: Do, began: Path) -> Any:
    """Run a function and ask it to stop when it has begun. Return its result."""
    stop = Stop()
    running = asyncio.create_task(run(do, began, stop=stop))
    await until(began.is_file)
    stop.requested = True
    return await running


async def test_the_result_is_that_of_another_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the same flow run, with the environment as it is now."""
    monkeypatch.setenv("TOLD", "one")
    process, flow_run, told = await run(whereabouts, "TOLD")
    assert process != os.getpid()
    assert flow_run not in {None, "None"}
    assert told == "one"


@pytest.mark.full
async def test_an_error_comes_back_as_it_is() -> None:
    """It keeps its fields. An error that cannot be pickled keeps its text."""
    with pytest.raises(LeaseHeld, match="it is held") as caught:
        await run(held, "a1")
    assert caught.value.name == "a1"
    with pytest.raises(RuntimeError, match="Choosy: 1 and 2"):
        await run(choose)


async def test_a_process_that_dies_is_an_error_of_its_own() -> None:
    """The parent continues."""
    with pytest.raises(ProcessDied, match="exit code -9"):
        await run(die, signal.SIGKILL)


async def test_the_signals_of_the_parent_are_left_to_it(tmp_path: Path) -> None:
    """A terminal sends Ctrl-C to all processes, and the parent passes on the stop request."""
    began = tmp_path / "began"
    running = asyncio.create_task(run(until_stopped, began, stop=(stop := Stop())))
    await until(began.is_file)
    pid = int(began.read_text().partition("-")[0])
    for number in (signal.SIGINT, signal.SIGTERM):
        os.kill(pid, number)
    stop.requested = True
    assert await running == "stopped"


@pytest.mark.full
async def test_work_that_ignores_a_stop_is_cut_off(
    tmp_path: Path, set_timings: Callable[..., None]
) -> None:
    """It counts as interrupted."""
    set_timings(stop_grace_s=0.5)
    with pytest.raises(Interrupted, match="cut off after 0 s"):
        await asked_to_stop(for_ever, tmp_path / "began")


@pytest.mark.full
async def test_a_cancelled_parent_leaves_no_process(tmp_path: Path) -> None:
    """A process that ignores stop requests is killed."""
    began = tmp_path / "began"
    running = asyncio.create_task(run(for_ever, began))
    await until(began.is_file)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    name = began.read_text()
    await until(lambda: not ownership.lives(name), seconds=30)
