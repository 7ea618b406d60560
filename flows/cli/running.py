"""CLI commands that run flows: build the declaration, run the flow, show its results."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from agent.errors import InfrastructureError, Interrupted, one_line
from agent.models import http
from agent.session.steps import Step
from flows.cli import console
from flows.cli.declarations import read_model
from flows.display import steps
from flows.display.errors import GateFailed, IncompleteRun, UsageError
from flows.display.terminal import show
from flows.experiments import declaration as experiments
from flows.experiments import forking, plan, selective
from flows.experiments.cells import Cell
from flows.experiments.declaration import Experiment
from flows.experiments.unfinished import OwnAttempt, find_or_start
from flows.server.api import prefect_api, wait_until_ready
from flows.storage.journals import open_journal
from flows.storage.lake import Lake
from reports.format import plural

if TYPE_CHECKING:
    from reports.types import Report

T = TypeVar("T")

_STOPPED = "stopped; run the same command again to continue"


def benchmark(declared: Experiment, lake: str | None, *, grade: bool = True) -> None:
    """Run an experiment and show its report, complete or not."""
    failure: IncompleteRun | GateFailed | None = None
    published: list[Report] = []
    distributed = declared.execution == "distributed"
    with prefect_api():  # a private server starts meanwhile
        asyncio.run(plan.check(declared, lake, runs_here=not distributed))
        from flows.benchmark import benchmark as flow
        from flows.report import on_report

        on_report.set(published.append)
        needs_litellm = declared.needs_litellm and not distributed
        try:
            run_flow(lambda: flow(declared, lake, grade=grade), needs_litellm)
        except (IncompleteRun, GateFailed) as error:
            failure = error
    console.report(Lake.existing(lake), published[-1])
    if failure:
        raise failure
    console.print_next_step(published[-1])


def debug(declared: Experiment, instance: str, arm: str, lake: str | None, *, full: bool) -> None:
    """Solve one cell under a new experiment name, so that no earlier result is reused.

    An attempt like it that has not finished is continued.
    """
    with prefect_api():
        from flows.cells.attempts import on_step
        from flows.solve import solve

        declared = find_or_start(declared, arm, lake).experiment
        on_step.set(partial(show_step, full=full))
        outcome = run_flow(lambda: solve(declared, instance, arm, lake=lake))
    show(f"\n{arm} on {instance}: {outcome}")
    console.print_debug_hints(declared.name, arm, Lake.existing(lake))


def run_flow(flow: Callable[[], Coroutine[Any, Any, T]], needs_litellm: bool = False) -> T:
    """Run a flow once the server answers. Return the flow's result.

    Raises:
        InfrastructureError: the server does not answer, or is lost permanently.
        Interrupted: the operator stopped the run.
    """
    import httpx
    from prefect import tags
    from prefect.exceptions import PrefectHTTPStatusError, TerminationSignal

    async def when_ready() -> T:
        waits: list[Coroutine[Any, Any, object]] = [wait_until_ready()]
        if needs_litellm:
            # LiteLLM takes seconds to import; do it while the server starts.
            waits.append(http.load_in_thread())
        await asyncio.gather(*waits)
        with tags("durabench"):
            return await flow()

    try:
        return run_here(when_ready)
    except TerminationSignal:
        raise Interrupted(_STOPPED) from None
    except (httpx.HTTPError, PrefectHTTPStatusError) as error:
        raise InfrastructureError(
            f"the Prefect server was lost: {one_line(error)}; run the same command again to "
            "continue"
        ) from error


def run_here(work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run work to its end.

    Raises:
        Interrupted: the operator stopped it.
    """
    try:
        return asyncio.run(work())
    except KeyboardInterrupt:
        raise Interrupted(_STOPPED) from None


def show_step(cell: Cell, step: Step, *, full: bool) -> None:
    """Print a step of an attempt."""
    console.step(steps.of_step(step), full=full)


def fork_at_step(
    attempt: str,
    step: str,
    model: str | None,
    api_base: str | None,
    options: Path | None,
    lake: str | None,
    *,
    dry_run: bool,
) -> None:
    """Fork an attempt before a step and resume it, showing every step and the new calls."""
    spec = read_model(model, api_base)
    changed = experiments.mapping(options) if options else None
    request = forking.check(attempt, step, lake, model=spec, options=changed)
    show(request.forecast())
    if dry_run:
        return
    with prefect_api():
        fork, kept = forking.fork(request)
        show(f"{plural(kept, 'step')} kept in experiment {fork.experiment.name}")
        _solve(fork, lake)


def fork_with_change(
    attempt: str,
    change: Path | None,
    edits: Sequence[str],
    never: Sequence[str],
    lake: str | None,
    *,
    dry_run: bool,
) -> None:
    """Fork an attempt with a change, showing every step, and the reused and the new calls."""
    answers = {}
    for text in edits:
        step, _, path = text.partition("=")
        if not (step and path):
            raise UsageError(f"--edit {text!r} is not STEP=FILE, such as 12=reply.txt")
        answers[step] = Path(path)
    changed = experiments.mapping(change) if change else {}
    changes = selective.Changes(changed, answers, never)
    request = selective.check(attempt, lake, changes)
    show(request.forecast())
    if dry_run:
        return
    with prefect_api():
        fork = selective.fork(request)
        _solve(fork, lake)
    journal = open_journal(request.lake)
    show(selective.summarise_fork(journal, request.parent, fork.attempt.attempt_id))


def _solve(fork: OwnAttempt, lake: str | None) -> None:
    from flows.cells.attempts import on_step
    from flows.solve import solve

    on_step.set(partial(show_step, full=False))
    arm, instance_id = fork.attempt.arm, fork.attempt.instance_id
    outcome = run_flow(lambda: solve(fork.experiment, instance_id, arm, lake=lake))
    show(f"\n{arm} on {instance_id}: {outcome}")
    console.print_debug_hints(fork.experiment.name, arm, Lake.existing(lake))
