"""`durabench doctor`: check the requirements of a run, and say how to fix what is missing."""

import asyncio
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Coroutine, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeout
from contextvars import copy_context
from functools import partial
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from agent.errors import InfrastructureError, one_line
from agent.journal import Journal
from agent.journal.database import is_missing, show_url
from agent.models.http import load_in_thread
from agent.timings import timings
from agent.workspaces import docker_available
from eval.base_image import BASE_IMAGE
from eval.errors import EvalError
from eval.reach import explain_unreachable, start_daemon
from flows.display.errors import UsageError
from flows.display.findings import Finding, note, ok, problem
from flows.display.terminal import show
from flows.experiments import probe
from flows.experiments.declaration import Experiment
from flows.experiments.models import ADDRESSES, join_arms, list_providers_with_keys
from flows.experiments.needs import find_full_disks
from flows.operation.checks import check_network, check_server
from flows.storage import cleanup, journals
from flows.storage.images import cache_folder
from flows.storage.lake import Lake, versions
from reports.errors import ReportError
from reports.format import plural

_FIX_S = 600.0
"""Time limit of the removal of leftovers."""

LOW_DISK_BYTES = 5 * 10**9


P = ParamSpec("P")
T = TypeVar("T")

Check = Callable[[], "list[Finding] | Coroutine[Any, Any, list[Finding]]"]


async def check(lake: str | None, *, fix: bool, experiment: Experiment | None = None) -> bool:
    """Print all findings, also about the models of an experiment. Return True without a problem.

    Checks are independent: each has a separate thread, and can fail or hang in it.
    """
    # On a busy machine, this import alone can take longer than the limit of a check.
    import prefect.client.orchestration  # noqa: F401

    checks: list[tuple[str, Check]] = [
        ("Python", _check_python),
        ("git", _check_git),
        ("Docker", _check_docker),
        ("images", _check_base_image),
        ("the lake", partial(_check_lake, lake)),
        ("the journal", partial(_check_journal, lake)),
        ("the disk", _check_disk),
        ("the network", check_network),
        ("Prefect", check_server),
        ("model keys", _check_keys),
        ("leftovers", partial(_check_leftovers, lake, fix)),
    ]
    limits_s = {"leftovers": _FIX_S} if fix else {}
    if experiment is not None:
        await load_in_thread()  # for the same reason
        checks.append(("the models", partial(_check_models, experiment)))
        limits_s["the models"] = 2 * probe.LIMIT_S + timings().doctor_check_s
    started = [(name, start_daemon(copy_context().run, _run, check)) for name, check in checks]
    started_at, has_problem = time.monotonic(), False
    for name, outcome in started:
        limit_s = limits_s.get(name, timings().doctor_check_s)
        left_s = max(0.0, started_at + limit_s - time.monotonic())
        try:
            findings = await asyncio.to_thread(outcome.result, left_s)
        except FutureTimeout:
            findings = [problem(f"{name}: no answer within {limit_s:.0f} s")]
        except (UsageError, ReportError, InfrastructureError, EvalError) as error:
            findings = [problem(f"{name}: {one_line(error)}")]
        except Exception as error:
            findings = [problem(f"{name}: {type(error).__name__}: {one_line(error)}")]
        print_all(findings)
        has_problem |= any(finding.level == "problem" for finding in findings)
    return not has_problem


def _run(check: Check) -> list[Finding]:
    findings = check()
    if isinstance(findings, list):
        return findings

    async def run() -> list[Finding]:
        asyncio.get_running_loop().set_default_executor(_Daemons())
        return await findings

    return asyncio.run(run())


class _Daemons(ThreadPoolExecutor):
    """Executor of an event loop, with daemon threads."""

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> "Future[T]":
        return start_daemon(fn, *args, **kwargs)


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
    if before is None or before.journal_id != after.journal_id:
        was = f"; it was {before.journal_of(lake)}" if before else ""
        show(
            f"the lake {lake.root} belongs to the journal {after.journal_of(lake)} from now on{was}"
        )
        show(
            "work that only another journal recorded, such as unfinished attempts, is paid for "
            "again"
        )
    if taken:
        show(
            f"this lake now owns {plural(taken, 'experiment')} of that journal, which belonged to "
            "another lake"
        )


def _check_python() -> list[Finding]:
    packages = ", ".join(f"{name} {version}" for name, version in versions().items())
    return [ok(f"Python {sys.version.split()[0]}; {packages}")]


def _check_git() -> list[Finding]:
    if shutil.which("git") is None:
        return [problem("git is not on PATH: install it")]
    done = subprocess.run(["git", "--version"], capture_output=True, text=True, check=False)
    return [ok(done.stdout.strip())]


async def _check_docker() -> list[Finding]:
    if why := await docker_available():
        return [note(f"{why}; bundled tasks run in host workspaces")]
    return [ok("a Docker daemon answers")]


def _check_base_image() -> list[Finding]:
    from eval.base_image import connect

    try:
        client = connect()
        names = {tag for image in client.api.images() for tag in image["RepoTags"] or ()}
    except EvalError:
        return [note("images: not checked, without a daemon")]
    if BASE_IMAGE in names:
        return [ok(f"{BASE_IMAGE} is available")]
    return [note(f"{BASE_IMAGE} is missing: `durabench images build` builds it")]


def _check_lake(path: str | None) -> list[Finding]:
    try:
        lake = Lake.existing(path)
        if isinstance(lake.root, Path) and not lake.root.exists():
            return [ok(f"lake {lake.root}: does not exist yet, the first run creates it")]
        Lake.open(path)
        journals.journal_url(lake)
    except (UsageError, ReportError, InfrastructureError) as error:
        return [problem(str(error))]
    return [ok(f"lake {lake.root}")]


def _check_journal(path: str | None) -> list[Finding]:
    """Check that the journal can be opened and belongs to the lake. Create and bind nothing."""
    try:
        lake = Lake.existing(path)
        url = journals.journal_url(lake)
        binding = journals.read_binding(lake)
        if binding is None:
            journals.check_knows(lake, url)
            if is_missing(url) or Journal.id_at(url) is None:
                name = f"journal {show_url(url)}"
                return [ok(f"{name}: does not exist yet, the first run creates it")]
        journal = journals.existing_journal(lake)
        assert journal is not None, "it is not missing"
    except (UsageError, ReportError, InfrastructureError) as error:
        return [problem(str(error))]
    whose = "the lake is bound to it" if binding else "the first run binds the lake to it"
    return [ok(f"journal {show_url(url)}, id {journal.id}: {whose}")]


def _check_disk() -> list[Finding]:
    folder = cache_folder()
    while not folder.exists():
        folder = folder.parent
    free = shutil.disk_usage(folder).free
    text = f"{free / 1e9:.0f} GB free for {cache_folder()}"
    if full := find_full_disks([folder]):
        return [problem(line) for line in full]
    return [note(text) if free < LOW_DISK_BYTES else ok(text)]


def _check_keys() -> list[Finding]:
    providers = list_providers_with_keys()
    if not providers:
        return [note("no model key: simulated models and your own servers need none")]
    findings = []
    for provider in providers:
        why = explain_unreachable(ADDRESSES[provider])
        where = f"model key of {provider}, {ADDRESSES[provider]}"
        findings.append(ok(f"{where} answers") if why is None else note(f"{where}: {why}"))
    return findings


async def _check_models(experiment: Experiment) -> list[Finding]:
    """Ask the models of an experiment once. Return a finding for each, with its arms."""
    found = await probe.ask_models(experiment, experiment.arms)
    if not found:
        return [ok(f"experiment {experiment.name} has no model to ask")]
    levels = {each.what: each.level for each, _ in found}
    named = join_arms((each.what, arm) for each, arm in found)
    return [Finding(level, line) for level, line in zip(levels.values(), named, strict=True)]


async def _check_leftovers(lake: str | None, fix: bool) -> list[Finding]:
    """Return the leftovers of dead runs, and remove them if `fix` is set."""
    store = Lake.existing(lake)
    if fix:
        return [ok(f"removed {line}") for line in await cleanup.sweep(store)]
    lines = await cleanup.leftovers(store)
    return [note(f"{line}; `durabench doctor --fix` removes it") for line in lines]
