"""`durabench doctor`: check the requirements of a run, and say how to fix what is missing."""

import asyncio
import inspect
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeout
from contextvars import copy_context
from functools import partial
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from agent.errors import InfrastructureError, one_line
from agent.journal import Journal
from agent.journal.database import is_missing, show_url
from agent.timings import timings
from agent.workspaces import docker_available
from eval.base_image import BASE_IMAGE
from eval.errors import EvalError
from flows.display.errors import UsageError
from flows.display.terminal import show
from flows.operation.checks import Finding, check_network, check_server
from flows.storage import bindings, cleanup, journals
from flows.storage.images import cache_folder
from flows.storage.lake import Lake, versions
from reports.errors import ReportError

if TYPE_CHECKING:
    pass

_FIX_S = 600.0
"""Time limit of the removal of leftovers."""

KEYS = ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY", "OPENROUTER_API_KEY")
"""The most common keys; LiteLLM knows many more."""

LOW_DISK_BYTES = 5 * 10**9


P = ParamSpec("P")
T = TypeVar("T")


Check = Callable[[], "Finding | list[Finding] | Awaitable[Finding | list[Finding]]"]


async def check(lake: str | None, *, fix: bool) -> bool:
    """Print all findings. Return True if none is a problem.

    Checks are independent: each has its own thread, and may fail or hang in it.
    """
    # On a busy machine, this import alone can take longer than the limit of a check.
    import prefect.client.orchestration  # noqa: F401

    check_s = timings().doctor_check_s
    leftovers_s = _FIX_S if fix else check_s
    checks: list[tuple[str, Check, float]] = [
        ("Python", _python, check_s),
        ("git", _git, check_s),
        ("Docker", _docker, check_s),
        ("images", _base_image, check_s),
        ("the lake", partial(_lake, lake), check_s),
        ("the journal", partial(_journal, lake), check_s),
        ("the disk", _disk, check_s),
        ("the network", check_network, check_s),
        ("Prefect", check_server, check_s),
        ("model keys", _keys, check_s),
        ("leftovers", partial(_leftovers, lake, fix), leftovers_s),
    ]
    begun = [(_start(name, check), name, limit_s) for name, check, limit_s in checks]
    deadline_from, found = time.monotonic(), list[Finding]()
    for outcome, name, limit_s in begun:
        left = max(0.0, deadline_from + limit_s - time.monotonic())
        ended = await asyncio.to_thread(_in_time, outcome, name, left, limit_s)
        print_all(ended)
        found += ended
    return all(finding.level != "problem" for finding in found)


def print_all(findings: Iterable[Finding]) -> None:
    """Print one line for each finding."""
    for finding in findings:
        show(f"{finding.level:<8} {finding.what}")


def adopt_journal(path: str | None) -> None:
    """Bind a lake to the configured journal, and print the consequences.

    Raises:
        UsageError: there is no lake, or no journal is configured.
        JournalError: the journal cannot be opened.
    """
    lake = Lake.existing(path)
    if isinstance(lake.root, Path) and not lake.root.is_dir():
        raise UsageError(f"there is no lake at {lake.root}: the first run creates and binds it")
    before, after, taken = journals.adopt(lake)
    own = after.journal_of(lake)
    if before is None or before.journal_id != after.journal_id:
        was = f"; it was {before.journal_of(lake)}" if before else ""
        show(f"the lake {lake.root} belongs to the journal {own} from now on{was}")
        show(
            "work that only another journal recorded, such as unfinished attempts, is paid for "
            "again"
        )
    if taken:
        show(
            f"{taken} experiments of that journal belonged to another lake and belong to this one "
            "now"
        )


def _start(name: str, check: Check) -> "Future[list[Finding]]":
    """Start a check in a daemon thread, which does not delay the exit of the program."""
    outcome: Future[list[Finding]] = Future()

    def run() -> None:
        try:
            found = check()
            if inspect.isawaitable(found):
                found = asyncio.run(_await(found))
            outcome.set_result(found if isinstance(found, list) else [found])
        except Exception as error:
            outcome.set_result([Finding("problem", _format_check(name, error))])

    Thread(target=copy_context().run, args=(run,), daemon=True).start()
    return outcome


async def _await(found: "Awaitable[Finding | list[Finding]]") -> "Finding | list[Finding]":
    asyncio.get_running_loop().set_default_executor(_Daemons())
    return await found


class _Daemons(ThreadPoolExecutor):
    """Event loop executor with daemon threads, which do not delay the exit of the program."""

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> "Future[T]":
        outcome: Future[T] = Future()

        def run() -> None:
            try:
                outcome.set_result(fn(*args, **kwargs))
            except BaseException as error:
                outcome.set_exception(error)

        Thread(target=run, daemon=True).start()
        return outcome


def _format_check(name: str, error: Exception) -> str:
    known = (UsageError, ReportError, InfrastructureError, EvalError)
    kind = "" if isinstance(error, known) else f"{type(error).__name__}: "
    return f"{name}: {kind}{one_line(error)}"


def _in_time(
    outcome: "Future[list[Finding]]", name: str, left_s: float, limit_s: float
) -> list[Finding]:
    try:
        return outcome.result(timeout=left_s)
    except FutureTimeout:
        return [Finding("problem", f"{name}: no answer within {limit_s:.0f} s")]


def _python() -> Finding:
    packages = ", ".join(f"{name} {version}" for name, version in versions().items())
    return Finding("ok", f"Python {sys.version.split()[0]}; {packages}")


def _git() -> Finding:
    if shutil.which("git") is None:
        return Finding("problem", "git is not on PATH: install it")
    done = subprocess.run(["git", "--version"], capture_output=True, text=True, check=False)
    return Finding("ok", done.stdout.strip())


async def _docker() -> Finding:
    problem = await docker_available()
    if problem:
        return Finding("note", f"{problem}; bundled tasks run in host workspaces")
    return Finding("ok", "a Docker daemon answers")


def _base_image() -> Finding:
    from eval.base_image import connect

    try:
        client = connect()
        names = {tag for image in client.api.images() for tag in image["RepoTags"] or ()}
    except EvalError:
        return Finding("note", "images: not checked, without a daemon")
    if BASE_IMAGE in names:
        return Finding("ok", f"{BASE_IMAGE} is available")
    return Finding("note", f"{BASE_IMAGE} is missing: `durabench images build` builds it")


def _lake(path: str | None) -> Finding:
    try:
        lake = Lake.existing(path)
        if isinstance(lake.root, Path) and not lake.root.exists():
            return Finding("ok", f"lake {lake.root}: does not exist yet, the first run creates it")
        Lake.open(path)
        journals.journal_url(lake)
    except (UsageError, ReportError, InfrastructureError) as error:
        return Finding("problem", str(error))
    return Finding("ok", f"lake {lake.root}")


def _journal(path: str | None) -> Finding:
    """Check that the journal can be opened and belongs to the lake. Create and bind nothing."""
    try:
        lake = Lake.existing(path)
        url = journals.journal_url(lake)
        binding = bindings.read(lake)
        if binding is None:
            journals.check_knows(lake, url)
            if is_missing(url) or Journal.id_at(url) is None:
                what = f"journal {show_url(url)}: does not exist yet, the first run creates it"
                return Finding("ok", what)
        journal = journals.existing_journal(lake)
        assert journal is not None, "it is not missing"
    except (UsageError, ReportError, InfrastructureError) as error:
        return Finding("problem", str(error))
    whose = "the lake is bound to it" if binding else "the first run binds the lake to it"
    return Finding("ok", f"journal {show_url(url)}, id {journal.id}: {whose}")


def _disk() -> Finding:
    folder = cache_folder()
    while not folder.exists():
        folder = folder.parent
    free = shutil.disk_usage(folder).free
    text = f"{free / 1e9:.0f} GB free for {cache_folder()}"
    return Finding("note" if free < LOW_DISK_BYTES else "ok", text)


def _keys() -> Finding:
    present = [name for name in KEYS if os.environ.get(name)]
    if present:
        return Finding("ok", f"model keys: {', '.join(present)}")
    return Finding("note", f"no model key among {', '.join(KEYS)}: simulated models need none")


async def _leftovers(lake: str | None, fix: bool) -> list[Finding]:
    """Return the leftovers of dead runs, and remove them if `fix` is set."""
    store = Lake.existing(lake)
    if fix:
        return [Finding("ok", f"removed {line}") for line in await cleanup.sweep(store)]
    found = await cleanup.leftovers(store)
    return [Finding("note", f"{line}; `durabench doctor --fix` removes it") for line in found]
