"""The checks of `durabench doctor` on a Prefect server, on the network, and in a repository."""

import asyncio
import os
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any
from uuid import UUID

from agent.errors import InfrastructureError, one_line
from agent.project import Folder, detect
from eval.reach import address_of, explain_no_connection
from flows.display.errors import UsageError
from flows.display.findings import Finding, note, ok, problem
from flows.operation.surroundings import proxies
from flows.server.api import contact, is_open
from flows.storage import journals

if TYPE_CHECKING:
    from prefect.client.orchestration import PrefectClient

_CONTACT_S = 5.0


async def check_server() -> list[Finding]:
    """Check the Prefect API of the current settings, its deployments and its workers."""
    from prefect.settings import PREFECT_API_URL

    url = PREFECT_API_URL.value()
    if not url:
        return [ok("Prefect API private: each command starts its own server")]
    from flows.server.settings import is_local

    findings = await _check_configured_server(url)
    if not is_local(url) and os.environ.get(journals.VARIABLE, "sqlite").startswith("sqlite"):
        findings.append(
            note(
                "the journal is SQLite and the Prefect server is on another machine: workers on "
                f"several machines need one journal, {journals.VARIABLE}=postgresql://…"
            )
        )
    return findings


async def _check_configured_server(url: str) -> list[Finding]:
    import httpx
    from prefect.client.orchestration import get_client
    from prefect.exceptions import PrefectHTTPStatusError

    from flows.server.settings import POOL, QUEUES, open_api

    try:
        version = await asyncio.to_thread(contact, url)
        is_public = await asyncio.to_thread(is_open, url)
    except InfrastructureError as error:
        return [problem(str(error))]
    findings = [ok(f"Prefect API {url}"), *version_notes(version)]
    if is_public:
        findings.append(note(open_api(url)))
    try:
        async with get_client() as client:
            settings = (await client.request("GET", "/admin/settings")).json()
            pools, missing = await _list_deployments(client)
            online = [worker for pool in pools for worker in await _online(client, pool, findings)]
            queues = await client.read_work_queues(work_pool_name=POOL) if online else []
    except (httpx.HTTPError, PrefectHTTPStatusError) as error:
        return [*findings, problem(f"Prefect API {url} does not answer: {error}")]
    if missing:
        findings.append(
            note(
                f"no deployment {', '.join(missing)}: create them with `prefect deploy --all` in "
                "a clone"
            )
        )
    findings += [
        note(
            f"no worker takes flow runs from work queue {queue.name}: start one with `prefect "
            f"worker start --pool {POOL} --work-queue {queue.name}`"
        )
        for queue in queues
        if queue.name in QUEUES and queue.status != "READY"
    ]
    return [*findings, *_check_settings(settings, url, len(online))]


def version_notes(server: str) -> list[Finding]:
    """Return a finding if server and local Prefect have different releases."""
    import prefect

    if server in ("", prefect.__version__):
        return []
    return [
        note(
            f"the Prefect server is {server} and the local Prefect is {prefect.__version__}: "
            "install the same version on both sides"
        )
    ]


async def _list_deployments(client: "PrefectClient") -> tuple[list[str], list[str]]:
    """Return the work pools of our deployments, and the names of missing deployments."""
    from flows.server.settings import DEPLOYMENTS, POOL

    pools, flows = dict[str, str](), dict[UUID, str]()
    for deployment in await client.read_deployments():
        if deployment.flow_id not in flows:
            flows[deployment.flow_id] = (await client.read_flow(deployment.flow_id)).name
        name = f"{flows[deployment.flow_id]}/{deployment.name}"
        pools[name] = deployment.work_pool_name or POOL
    used = {pools[name] for name in DEPLOYMENTS if name in pools}
    return sorted(used | {POOL}), [name for name in DEPLOYMENTS if name not in pools]


async def _online(client: "PrefectClient", pool: str, findings: list[Finding]) -> list[str]:
    """Return the online workers of a pool. Append a finding with their number."""
    from prefect.exceptions import ObjectNotFound

    try:
        await client.read_work_pool(pool)  # raises if it is missing; the next call does not
        workers = await client.read_workers_for_work_pool(pool)
    except ObjectNotFound:
        findings.append(note(f"no work pool {pool}: `durabench setup` creates it"))
        return []
    online = [worker.name for worker in workers if worker.status == "ONLINE"]
    what = f"{len(online)} worker{'s' * (len(online) != 1)} of pool {pool} online"
    if online:
        findings.append(ok(what))
    else:
        start = f"start one with `prefect worker start --pool {pool}`"
        findings.append(note(f"{what}, so deployments do not run: {start}"))
    return online


def _check_settings(settings: Mapping[str, Any], url: str, online: int) -> list[Finding]:
    """Return findings on settings of the server, and of workers started here, to change."""
    from prefect.settings import PREFECT_WORKER_QUERY_SECONDS

    from flows.server.settings import LONGEST_POLL_S, database, find_wrong_ui_port, lacking

    findings = []
    if missing := lacking(settings):
        findings.append(
            note(
                "the Prefect server falls behind under many cells, loses runs when it is "
                f"restarted or answers foreign web pages: it lacks {', '.join(missing)}; write "
                "them with `durabench setup --env-file FILE`"
            )
        )
    if ui_url := find_wrong_ui_port(settings, url):
        findings.append(
            note(
                f"the UI of the Prefect server expects the API at {ui_url}, but it is at {url}: "
                f"start the server with PREFECT_SERVER_UI_API_URL={url}"
            )
        )
    if online > 1 and database(settings) != "postgresql":
        findings.append(
            note(
                f"{online} workers, and the Prefect server does not use PostgreSQL as its "
                "database (PREFECT_SERVER_DATABASE_DRIVER): SQLite is for one worker"
            )
        )
    poll_s = PREFECT_WORKER_QUERY_SECONDS.value()
    if poll_s > LONGEST_POLL_S:
        findings.append(
            note(
                f"a worker started with these settings polls for cells every {poll_s:g} s: set "
                f"PREFECT_WORKER_QUERY_SECONDS={LONGEST_POLL_S:g} where workers are started"
            )
        )
    return findings


class _Answer(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(204)
        self.end_headers()

    def log_message(self, *arguments: Any) -> None:
        """Print nothing."""


async def check_network() -> list[Finding]:
    """Ask a server on loopback through the client that models use, and contact each proxy."""
    from agent.models.http import client

    server = HTTPServer(("127.0.0.1", 0), _Answer)
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        answer = await client().get(f"http://127.0.0.1:{server.server_port}/", timeout=_CONTACT_S)
        answer.raise_for_status()
        findings = [ok("a request on loopback is answered")]
    except Exception as error:
        findings = [problem(f"a request on loopback fails: {one_line(error)}")]
    finally:
        await asyncio.to_thread(server.shutdown)
        server.server_close()
    for name, value in proxies().items():
        findings.append(await asyncio.to_thread(_check_proxy, name, value))
    return findings


def _check_proxy(name: str, value: str) -> Finding:
    host, port = address_of(value)
    if (why := explain_no_connection(host, port)) is not None:
        return problem(f"{name}: the proxy does not answer: {why}; correct or unset {name}")
    return ok(f"{name}: the proxy {host}:{port} answers")


def check_repository(path: Path) -> list[Finding]:
    """Return the kind and the commands of the project in a folder, as its files show them.

    Raises:
        UsageError: there is no such folder.
    """
    if not path.is_dir():
        raise UsageError(f"--repo {path}: there is no such folder")
    project = detect(Folder(path))
    if project is None:
        return [
            note("project: nothing detected; name its test command with `durabench job --verify`")
        ]

    def show(name: str, command: str | None) -> Finding:
        return ok(f"{name}: {command}") if command else note(f"{name}: nothing detected")

    if project.tests is None:
        tests = note("tests: nothing detected; name a command with `durabench job --verify`")
    else:
        how = {"observed": "each test is observed", "exit code": "only the exit code is known"}
        results = project.tests.results
        read = how.get(results, f"results are read as {results}")
        tests = ok(f"tests: {project.tests.command} ({read})")
    return [
        ok(f"project: {project.kind} ({project.why})"),
        show("install", project.install),
        show("build", project.build),
        tests,
        *(ok(f"tests of a further project: {suite.command}") for suite in project.others),
        *(show("lint", line) for line in project.lint or [None]),
    ]
