"""`durabench doctor`: what a run needs, whether it is here, and what to do where it is not."""

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass

from rich.console import Console

from agent.errors import InfrastructureError
from agent.workspaces import docker_available
from eval.base_image import BASE_IMAGE
from eval.errors import EvalError
from flows import journals, sweeping
from flows.errors import UsageError
from flows.lake import Lake
from flows.places import cache_folder
from flows.rows import versions
from reports.errors import ReportError

KEYS = ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY", "OPENROUTER_API_KEY")
"""The keys that are asked for most; LiteLLM knows many more."""

LOW_DISK_BYTES = 5 * 10**9


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at."""

    level: str
    """ok, note (works without) or problem (a run cannot work)."""
    what: str


async def show(lake: str | None, *, fix: bool) -> bool:
    """Print every finding; whether none of them is a problem."""
    console = Console(highlight=False)
    findings = [
        _python(),
        _git(),
        await _docker(),
        _base_image(),
        _lake(lake),
        _disk(),
        *await _prefect(),
        _keys(),
        *await _leftovers(lake, fix),
    ]
    for finding in findings:
        console.print(f"{finding.level:<8} {finding.what}", markup=False, soft_wrap=True)
    return all(finding.level != "problem" for finding in findings)


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
        names = {tag for image in client.images.list() for tag in image.tags}
    except EvalError:
        return Finding("note", "images: not looked at, without a daemon")
    if BASE_IMAGE in names:
        return Finding("ok", f"{BASE_IMAGE} is here")
    return Finding("note", f"{BASE_IMAGE} is not here yet: `durabench images build` makes it")


def _lake(path: str | None) -> Finding:
    try:
        lake = Lake.open(path)
        journals.journal_url(lake)
    except (UsageError, ReportError, InfrastructureError) as error:
        return Finding("problem", str(error))
    return Finding("ok", f"lake {lake.root}")


def _disk() -> Finding:
    folder = cache_folder()
    while not folder.exists():
        folder = folder.parent
    free = shutil.disk_usage(folder).free
    text = f"{free / 1e9:.0f} GB free for {cache_folder()}"
    return Finding("note" if free < LOW_DISK_BYTES else "ok", text)


async def _prefect() -> list[Finding]:
    from prefect.settings import PREFECT_API_URL

    url = PREFECT_API_URL.value()
    if not url:
        return [Finding("ok", "Prefect API private: each command starts its own server")]
    from flows.server_settings import is_local

    findings = await _server(url)
    if not is_local(url) and os.environ.get(journals.VARIABLE, "sqlite").startswith("sqlite"):
        findings.append(
            Finding(
                "note",
                "the journal is SQLite and the Prefect server is elsewhere: workers on several "
                f"machines need one journal, {journals.VARIABLE}=postgresql://…",
            )
        )
    return findings


async def _server(url: str) -> list[Finding]:
    """What a Prefect server says of its settings, and who works for it."""
    import httpx
    from prefect.client.orchestration import get_client
    from prefect.exceptions import ObjectNotFound, PrefectHTTPStatusError

    from flows.server_settings import POOL, database, lacking

    try:
        async with get_client() as client:
            settings = (await client.request("GET", "/admin/settings")).json()
            try:
                await client.read_work_pool(POOL)  # of which the next says only that it is missing
                workers = await client.read_workers_for_work_pool(POOL)
            except ObjectNotFound:
                workers = None
    except (httpx.HTTPError, PrefectHTTPStatusError) as error:
        return [Finding("problem", f"Prefect API {url} does not answer: {error}")]
    findings = [Finding("ok", f"Prefect API {url}")]
    if workers is None:
        findings.append(Finding("note", f"no work pool {POOL}: `durabench setup` makes it"))
    if few := lacking(settings):
        findings.append(
            Finding(
                "note",
                "the Prefect server falls behind under many cells or loses runs when it is "
                f"restarted: it lacks {', '.join(few)}; `durabench setup --env-file FILE` writes "
                "them",
            )
        )
    online = [worker.name for worker in workers or [] if worker.status == "ONLINE"]
    if len(online) > 1 and database(settings) != "postgresql":
        findings.append(
            Finding(
                "note",
                f"{len(online)} workers, and the Prefect server names no PostgreSQL as its "
                "database (PREFECT_SERVER_DATABASE_DRIVER): SQLite is for one",
            )
        )
    return findings


def _keys() -> Finding:
    present = [name for name in KEYS if os.environ.get(name)]
    if present:
        return Finding("ok", f"model keys: {', '.join(present)}")
    return Finding("note", f"no model key among {', '.join(KEYS)}: simulated models need none")


async def _leftovers(lake: str | None, fix: bool) -> list[Finding]:
    """What dead runs left, removed where that is wanted."""
    store = Lake.existing(lake)
    if fix:
        return [Finding("ok", f"removed {line}") for line in await sweeping.sweep(store)]
    found = await sweeping.leftovers(store)
    return [Finding("note", f"{line}; `durabench doctor --fix` removes it") for line in found]
