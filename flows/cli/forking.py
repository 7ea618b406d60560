"""Forks of an attempt: made, run and shown."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from flows.cli import console
from flows.cli.running import litellm_spec, run_flow, show_step
from flows.display.errors import UsageError
from flows.display.terminal import show
from flows.experiments import declaration as experiments
from flows.experiments import forking, selective
from flows.experiments.forking import Fork
from flows.server.api import prefect_api
from flows.storage.journals import open_journal
from flows.storage.lake import Lake


def at_step(
    attempt: str,
    step: str,
    model: str | None,
    api_base: str | None,
    options: Path | None,
    lake: str | None,
    *,
    alone: bool,
) -> None:
    """Fork an attempt before a step and resume it, showing every step."""
    if not alone:
        raise UsageError("--at goes without --change, --edit, --never and --dry-run")
    spec = litellm_spec(model, api_base) if model else None
    changed = experiments.mapping(options) if options else None
    request = forking.check(attempt, step, lake, model=spec, options=changed)
    with prefect_api():
        made = forking.fork(request)
        show(f"{made.kept_steps} steps kept in experiment {made.experiment.name}")
        _solve(made, lake)


def selective_fork(
    attempt: str,
    change: Path | None,
    edits: Sequence[str],
    never: Sequence[str],
    lake: str | None,
    *,
    alone: bool,
    dry_run: bool,
) -> None:
    """Fork an attempt with a change, showing every step, and what was reused and bought."""
    if not alone:
        raise UsageError("--model, --api-base and --options go with --at; put them into --change")
    if not (change or edits or never):
        raise UsageError("say what to fork at (--at) or what changes (--change, --edit)")
    changes = selective.Changes(
        experiments.mapping(change) if change else {},
        dict(map(_edit, edits)),
        never,
    )
    request = selective.check(attempt, lake, changes)
    show(request.forecast())
    if dry_run:
        return
    with prefect_api():
        made = selective.fork(request)
        _solve(made, lake)
    journal = open_journal(request.lake)
    show(selective.used(journal, request.parent, made.attempt_id))


def _edit(text: str) -> tuple[str, Path]:
    step, equals, path = text.partition("=")
    if not (step and equals and path):
        raise UsageError(f"--edit {text!r} is not STEP=FILE, such as 12=reply.txt")
    return step, Path(path)


def _solve(made: Fork, lake: str | None) -> None:
    from flows.cells.attempts import on_step
    from flows.solve import solve

    on_step.set(partial(show_step, full=False))
    outcome = run_flow(lambda: solve(made.experiment, made.instance_id, made.arm, lake=lake))
    show(f"\n{made.arm} on {made.instance_id}: {outcome}")
    console.debugged(made.experiment.name, made.arm, Lake.existing(lake))
