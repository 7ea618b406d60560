"""Runs a program in a workspace, with a gateway as its model."""

import asyncio
import signal
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from agent.arms.command import SCOPE, installed
from agent.arms.command.recipe import CommandOptions, Recipe
from agent.errors import (
    AgentError,
    Destroyed,
    NoProgram,
    Undone,
    WorkspaceError,
)
from agent.gateway.app import app, make_token, serve, socket_folder
from agent.gateway.calls import Calls
from agent.gateway.equivalence import FirstDifference
from agent.gateway.matching import Loosened
from agent.gateway.switch import Switch
from agent.models.protocol import UNKNOWN_WINDOW
from agent.session.session import Session
from agent.shortening import shorten_middle, strip_style
from agent.types import Outcome, OutcomeStatus, Task
from agent.workspaces import CommandResult, Mount, Workspace

_NOT_FOUND = (126, 127)
_MEMORY = "memory_gb"
_SIGNALS = {128 + number: number for number in (signal.SIGKILL, signal.SIGTERM)}
"""Exit codes of programs that a signal from outside ended. Others come from their own mistakes."""
_PROBE_TIMEOUT_S = 120.0
_LAST_WORDS = 2_000
_SHOWN_ROUTES = 3
_OUTPUT_BYTES = 10 * 2**20
"""Of longer outputs, the first and the last half are kept."""


@dataclass(frozen=True)
class ProgramRun:
    """One run of a program that ended by itself or at its time limit."""

    exit_code: int
    timed_out: bool
    last_words: str
    """The end of its output."""
    agent_version: str
    claimed_usd: float | None
    calls: int
    """Requests that got a model's answer, recorded or new."""
    restarts: int
    answered_from_record: int
    unused_calls: list[int] = field(default_factory=list)
    """Numbers of the recorded calls of earlier runs that this run did not make."""
    requested_models: dict[str, int] = field(default_factory=dict)
    server_tools: dict[str, int] = field(default_factory=dict)
    dropped_fields: dict[str, int] = field(default_factory=dict)
    unknown_routes: dict[str, int] = field(default_factory=dict)
    """Requests that the gateway has no route for, by method and path."""
    cut_streams: int = 0
    invalid_requests: int = 0
    loosened: list[Loosened] = field(default_factory=list)
    """The repeated calls that differ from their record in what is not compared."""
    first_difference: FirstDifference | None = None
    """Where the first call that was bought twice differs from its record."""
    long_requests: int = 0
    first_refusal: str = ""
    """The reason of the first request that the gateway or the provider refused."""
    first_request_s: float | None = None
    """Seconds from its start to its first request; None without one, and in older journals."""


async def solve(task: Task, session: Session, options: CommandOptions) -> Outcome:
    """Run the program and submit its change.

    Raises:
        NoProgram: the program or what it needs is not in the workspace.
        InfrastructureError: the program could not work: it never reached the gateway, was lost
            again and again, or its provider does not answer.
        BudgetExhausted: a budget does not allow a call of the program, which was ended.
    """
    recipe = options.program
    own_files, request = recipe.own_files, {"recipe": recipe.name}
    # The folder outlives the program: a step that opens another workspace has the same mounts.
    with socket_folder() as folder:
        agent_folder = await _mount(session, recipe, folder)
        run = _Run(task, session, options, folder, agent_folder)
        result: ProgramRun | Undone
        try:
            result = await session.act("agent", request, run.work, ProgramRun)
        except Undone as error:  # the program left no repository
            result = error
        patch = await session.act(
            "diff",
            {"without": own_files},
            lambda workspace: workspace.diff(without=own_files),
            str,
            depends_on={},
        )
    if isinstance(result, Undone):
        return Outcome("gave_up", patch, str(result), {"command": request})
    status: OutcomeStatus = "submitted" if result.exit_code == 0 and result.calls else "gave_up"
    if result.timed_out:
        status = "out_of_time"
    return Outcome(status, patch, _detail(result), {"command": {**request, **asdict(result)}})


async def _mount(session: Session, recipe: Recipe, folder: Path) -> str:
    """Let containers see the socket and the program. Return the folder of the program."""
    install = recipe.source
    if session.workspaces.environment == "host":
        return str((install and install.folder) or "")
    mounts = [Mount(str(folder), installed.SOCKET_FOLDER)]
    if install is not None:
        mounts.append(Mount(await installed.volume(install), installed.AGENT_FOLDER))
    session.mount(mounts)
    return installed.AGENT_FOLDER


@dataclass(frozen=True)
class _Run:
    """One run of the program, from the base commit on."""

    task: Task
    session: Session
    options: CommandOptions
    folder: Path
    agent_folder: str

    async def work(self, workspace: Workspace) -> ProgramRun:
        recipe = self.options.program
        version = await _version(workspace, recipe, self.agent_folder)
        calls = Calls(self.session.scope(SCOPE), recipe.volatile, recipe.volatile_text)
        await calls.begin()
        try:
            run = await self._run_program(workspace, calls, version)
            if run.exit_code in _SIGNALS and not run.timed_out:
                raise await calls.lose(_describe_kill(run, workspace))
            _check(run, recipe)
            try:
                await workspace.tree()
            except Destroyed as error:
                raise Destroyed(f"{error} ({_detail(run)})") from None
        except WorkspaceError:
            raise  # the program was lost, perhaps by its own doing
        except AgentError:
            await calls.excuse()
            raise
        return run

    async def _run_program(self, workspace: Workspace, calls: Calls, version: str) -> ProgramRun:
        recipe = self.options.program
        key, info = make_token(), self.session.model().info
        window = await self.session.find_window()
        switch = Switch(calls, recipe.models)
        socket_folder = self.folder if workspace.environment == "docker" else None
        async with AsyncExitStack() as stack:
            stack.push_async_callback(switch.cancel)
            address = await stack.enter_async_context(
                serve(app(switch, info.name, key), socket_folder)
            )
            variables = {
                "DURABENCH_KEY": key,
                # Clients choose their features by the name that the vendor uses.
                "DURABENCH_MODEL": info.name.rpartition("/")[2],
                "DURABENCH_AGENT": self.agent_folder,
                "DURABENCH_CONTEXT": str(window or UNKNOWN_WINDOW),
                "DURABENCH_MAX_OUTPUT": str(info.max_tokens(window)),
            }
            script = installed.script(recipe, self.task.statement, address, variables)
            try:
                result = await _until_failure(workspace, script, self.options.run_limit_s, switch)
            except Destroyed as error:
                if _MEMORY in workspace.limits_reached:
                    raise await calls.lose(f"the program was lost: {error}") from error
                raise
        if result.exit_code or not calls.answered:
            await asyncio.to_thread(self.session.attempt.on_output, result.output)
        seen, records = switch.seen, calls.records
        return ProgramRun(
            exit_code=result.exit_code,
            timed_out=result.timed_out,
            last_words=result.output.strip()[-_LAST_WORDS:],
            agent_version=version,
            claimed_usd=recipe.claim(result.output),
            calls=calls.answered,
            restarts=calls.begun,
            answered_from_record=records.found,
            unused_calls=records.unused,
            requested_models=dict(seen.requested_models),
            server_tools=dict(seen.server_tools),
            dropped_fields=dict(seen.dropped_fields),
            unknown_routes=dict(seen.unknown_routes),
            cut_streams=seen.cut_streams,
            invalid_requests=seen.invalid_requests,
            loosened=records.loosened,
            first_difference=records.difference if records.unused else None,
            long_requests=seen.long_requests,
            first_refusal=seen.first_refusal,
            first_request_s=seen.first_request_s,
        )


async def _until_failure(
    workspace: Workspace, script: str, limit_s: float, switch: Switch
) -> CommandResult:
    """Run a script, and end it with everything that it started if the gateway fails.

    Calls in flight are recorded in any case, because they are paid for.
    """
    running = asyncio.create_task(
        workspace.run(script, timeout_s=limit_s, max_output_bytes=_OUTPUT_BYTES)
    )
    try:
        either: set[asyncio.Future[Any]] = {running, switch.failed}
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
    finally:
        if not running.done():
            running.cancel()
            await asyncio.wait({running})
    await switch.settle()
    if switch.failed.done():
        raise switch.failed.result()
    return running.result()


async def _version(workspace: Workspace, recipe: Recipe, agent_folder: str) -> str:
    """Return the release that the program states."""
    if not recipe.probe:
        return recipe.version
    result = await workspace.run(installed.probe(recipe, agent_folder), timeout_s=_PROBE_TIMEOUT_S)
    output = result.output.strip()
    if result.exit_code:
        raise NoProgram(
            f"recipe {recipe.name}: the program is not in this workspace, `{recipe.probe}` ended "
            f"with exit code {result.exit_code}: {shorten_middle(output, 500)}"
        )
    return output.splitlines()[-1] if output else ""


def _check(run: ProgramRun, recipe: Recipe) -> None:
    """Check that the program could work. A conversation that is too long is its own failure."""
    if run.calls or run.long_requests:
        return
    words = _shorten(run)
    if run.exit_code == installed.NO_RELAY:
        raise NoProgram(f"recipe {recipe.name}: the program cannot reach its model: {words}")
    if run.exit_code in _NOT_FOUND:
        raise NoProgram(f"recipe {recipe.name}: the program is not in this workspace: {words}")
    end = "timed out" if run.timed_out else f"ended with exit code {run.exit_code}"
    refused = f"; refused: {run.first_refusal}" if run.first_refusal else ""
    routes = f"; unknown: {list_routes(run.unknown_routes)}" if run.unknown_routes else ""
    raise NoProgram(
        f"recipe {recipe.name}: the program {end} before its first model call{refused}{routes}: "
        f"{words}"
    )


def list_routes(routes: Mapping[str, int]) -> str:
    """Return the first of some routes, each with the number of its requests."""
    shown = [f"{route} ({number}x)" for route, number in list(routes.items())[:_SHOWN_ROUTES]]
    return ", ".join(shown + ["..."] * (len(routes) > _SHOWN_ROUTES))


def _describe_kill(run: ProgramRun, workspace: Workspace) -> str:
    number = _SIGNALS[run.exit_code]
    limit = workspace.limits_reached.get(_MEMORY) if number == signal.SIGKILL else None
    by = f"for memory: the container reached {limit}" if limit else f"by signal {number}"
    return f"the program was killed {by}"


def _detail(run: ProgramRun) -> str:
    end = "timed out" if run.timed_out else f"exit code {run.exit_code}"
    return f"{end}: {_shorten(run)}"


def _shorten(run: ProgramRun) -> str:
    """Return the beginning and the end of the last words, in one line."""
    return " ".join(shorten_middle(strip_style(run.last_words), 500).split())
