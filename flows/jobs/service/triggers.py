"""Labels and mentions on a forge that start or continue jobs, and CI that fails.

A forge sends them to the webhook, or the service reads them at intervals. Both act alike: an issue
has one job, whose id follows from it, and an event older than the last order was part of it.
"""

import asyncio
import hmac
import json
import logging
import os
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from hashlib import sha256

from fastapi import APIRouter, Request

from agent.arms import ARMS
from agent.errors import InfrastructureError, MessageRefused, one_line
from agent.journal import InboxMessage
from eval import repositories
from eval.digests import canonical_digest
from eval.errors import DatasetError
from eval.repositories import RepositorySource
from flows.display.errors import UsageError
from flows.jobs import rows
from flows.jobs.forge import connect, find_page, is_pull_of
from flows.jobs.forges import github, gitlab
from flows.jobs.forges.protocol import LABEL, SIGN, Event, Forge
from flows.jobs.mailbox import is_left, leave, read_asks, read_open_attempts
from flows.jobs.request import TOKEN, access_to
from flows.jobs.request import Request as JobRequest
from flows.jobs.request import forge as forge_address
from flows.jobs.service import orders, repairs
from flows.jobs.service.board import JobStatus
from flows.jobs.service.feed import Service, Used
from flows.jobs.service.guard import Problem
from flows.jobs.service.orders import JobMessage
from flows.storage.lake import Row
from reports.quoting import quote_text

SECRET = "DURABENCH_WEBHOOK_SECRET"  # noqa: S105 - the name of a variable
_SHORTEST_SECRET = 16
_LOOK_S = 60
_CAUGHT_UP = timedelta(days=1)
"""Events of this time before the start of the service are read."""
_OVERLAP = timedelta(minutes=5)
"""Clocks of forges may be late."""

router = APIRouter()
_log = logging.getLogger("durabench.service")
_turn = asyncio.Lock()

Answer = dict[str, str]

_REFUSALS = (Problem, UsageError, DatasetError, InfrastructureError, MessageRefused)


@router.post("/webhook", status_code=202)
async def webhook(request: Request, service: Used) -> Answer:
    """Take an event of a forge. The answer names the job, or says why nothing was done."""
    body, headers = await request.body(), request.headers
    _check_signature(headers, body)
    try:
        payload = json.loads(body)
        gitea = headers.get("x-gitea-event")
        if "x-gitlab-event" in headers:
            address, event = str(payload["project"]["web_url"]), gitlab.read_delivery(payload)
        else:
            address = str(payload["repository"]["html_url"])
            event = github.read_delivery(gitea or headers["x-github-event"], payload)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise Problem(400, f"not an event of a forge: {type(error).__name__} {error}") from None
    if not address.startswith(("http://", "https://")):
        raise Problem(400, "not an event of a forge: it names no repository by its address")
    if event is None:
        return {"ignored": "it concerns no job"}
    names = ("x-gitea-delivery", "x-github-delivery", "idempotency-key", "x-gitlab-event-uuid")
    key = next((headers[name] for name in names if name in headers), "")
    return await act(service, address, event, key, set())


def _check_signature(headers: Mapping[str, str], body: bytes) -> None:
    """Check that a delivery comes from who knows the secret.

    Raises:
        Problem: it does not, or the service has no secret.
    """
    secret = os.environ.get(SECRET, "").strip().encode()
    if len(secret) < _SHORTEST_SECRET:
        raise Problem(
            404, f"no webhook is set up: set {SECRET} to {_SHORTEST_SECRET} characters or more"
        )
    digest = hmac.new(secret, body, sha256).hexdigest()
    expected = {
        "x-gitlab-token": secret.decode(),
        "x-hub-signature-256": f"sha256={digest}",
        "x-gitea-signature": digest,
    }
    given = [name for name in expected if name in headers]
    if not given or not all(
        hmac.compare_digest(headers[name].encode(), expected[name].encode()) for name in given
    ):
        raise Problem(401, f"the signature is not of the secret in {SECRET}")


async def act(service: Service, address: str, event: Event, key: str, told: set[Event]) -> Answer:
    """Start or continue the job that an event is about. `key` is the same for the same delivery.

    The problem of an event without one is commented on once: it is then among those `told`.

    Raises:
        Problem, UsageError, InfrastructureError: it cannot be ordered, or the forge refuses.
    """
    source = repositories.source(address, forge_address())
    if not access_to(source).token:
        raise UsageError(f"the service has no token for {source.address}: set {TOKEN}")
    async with _turn:
        if event.commit:
            return await repairs.repair(service, source, event.commit)
        forge = await asyncio.to_thread(connect, source)
        # Without a name, the rights would be of the token.
        if not event.user or await asyncio.to_thread(forge.read_rights, event.user) != "write":
            return {"ignored": f"{event.user or 'an unknown user'} may not write to {source.name}"}
        page = find_page(source)
        item = [page.lower(), "pull" if event.is_pull else "issue", event.number]
        job_id = canonical_digest(item)[:10]
        row = await asyncio.to_thread(_find_last, service, source, event, job_id)
        try:
            if row is None:
                wanted: JobRequest | str = await _start(service, page, forge, event, job_id)
            elif await asyncio.to_thread(
                is_left, service.lake, row["job_id"], _name(event)
            ) and not _has_ended_before(row, event):
                return {"ignored": f"job {row['job_id']} has it already"}
            else:
                is_own = is_pull_of(source, row["pull_request"], event.number)
                is_over = not await asyncio.to_thread(
                    read_open_attempts, service.lake, row["job_id"]
                )
                wanted = _continue(row, event, is_own=event.is_pull and is_own, is_over=is_over)
            if isinstance(wanted, str):
                return {"ignored": wanted}
            kind = "pull" if event.is_pull else "issues"
            wanted = wanted.model_copy(update={"asked_on": f"{page}/{kind}/{event.number}"})
            return await _order(service, forge, wanted, event, key)
        except _REFUSALS as error:
            # Without a key, a second try follows. It may fail in the same way for ever.
            is_late = isinstance(error, InfrastructureError) or (
                isinstance(error, Problem) and error.status == 503
            )
            if key or not (is_late or event in told):
                told.add(event)
                await _comment(forge, event, f"This is not possible now: {quote_text(str(error))}")
            raise


def _find_last(service: Service, source: RepositorySource, event: Event, job_id: str) -> Row | None:
    """Return the last job of a pull request, or of an issue.

    A job at work comes first, then a finished one, then any other.
    """
    chain: list[Row] = []
    for row in reversed(rows.read_all(service.lake)):
        is_on = event.is_pull and is_pull_of(source, row["pull_request"], event.number)
        is_next = any(
            row["revises"] == before["job_id"] or row["branch"] == (before["branch"] or 0)
            for before in chain
        )
        if is_on or is_next or row["job_id"] == job_id:
            chain.append(row)
    at_work = [row for row in chain if row["state"] not in ("done", "failed", "cancelled")]
    done = [row for row in chain if row["state"] == "done"]
    return next((row for row in (at_work or done or chain)[::-1]), None)


async def _start(
    service: Service, page: str, forge: Forge, event: Event, job_id: str
) -> JobRequest | str:
    """Return the first job of an issue, or of a pull request that people have opened."""
    fields = {"source": f"{page}/issues/{event.number}", "task": event.text}
    if event.is_pull:
        pull = await asyncio.to_thread(forge.read_pull, event.number)
        if pull.state != "open" or pull.is_fork:
            return "its branch is closed or in another repository"
        task = event.text or f"{pull.title}\n\n{pull.text}"
        fields = {"source": page, "ref": pull.branch, "task": task}
    body = {**fields, "publish": "pull_request", "id": job_id}
    return orders.parse_job(body, service.defaults)


def _continue(row: Row, event: Event, *, is_own: bool, is_over: bool) -> JobRequest | str:
    """Return the job that continues another one: itself if it has no result, else a revision.

    One that failed although its work `is_over` fails again without another task.
    """
    if row["state"] == "failed" and is_over and row["base_commit"] and event.text:
        if event.at <= row["updated_at"]:
            return f"job {row['job_id']} has it already"
        changes = {"id": None, "revises": row["job_id"], "task": event.text, "ref": None}
    elif row["state"] != "done":
        changes = {"id": row["job_id"]}
    elif event.at <= row["submitted_at"]:
        return f"job {row['job_id']} has it already"
    elif is_own:  # a revision reads the comments itself
        changes = {"id": None, "revises": row["job_id"], "task": "", "ref": None}
    elif event.text:
        changes = {"id": None, "revises": row["job_id"], "task": event.text, "ref": None}
    else:
        return f"job {row['job_id']} is done"
    wanted = JobRequest.model_validate(json.loads(row["request"]) | changes)
    return wanted.model_copy(update={"id": wanted.job_id})


async def _order(
    service: Service, forge: Forge, wanted: JobRequest, event: Event, key: str
) -> Answer:
    """Order a job, or pass a message on to it if it is at work. Say so on the forge."""
    job_id = wanted.job_id
    once = key or f"{job_id}-{event.at.isoformat()}"
    job = (await service.board.statuses([job_id])).get(job_id)
    if job is not None:
        known_until = job.updated_at if job.is_final else job.submitted_at
        if job.state == "done" or event.at <= known_until:
            return {"ignored": f"job {job_id} has it already"}
        if job.is_final:
            _check_hearing(wanted, event)
    # The text comes first: a service that dies after it orders the job at the next delivery.
    if job is not None and event.text:
        await _pass_on(service, job, wanted, event)
    if job is None or job.is_final:
        await orders.submit(service, wanted, once)
        await _comment(forge, event, f"Job `{job_id}` works on this.")
    return {"job": job_id}


def _has_ended_before(row: Row, event: Event) -> bool:
    return row["state"] in ("done", "failed", "cancelled") and event.at > row["updated_at"]


async def _pass_on(service: Service, job: JobStatus, wanted: JobRequest, event: Event) -> None:
    """Pass the text of a mention on to a job. It is left for attempts that have not started.

    Raises:
        Problem: the job takes none.
    """
    asks = await asyncio.to_thread(read_asks, service.lake, job.id)
    at_work = await asyncio.to_thread(read_open_attempts, service.lake, job.id)
    wants_approval = job.state == "waiting" and (not asks or asks[0].wanted == "approval")
    message = JobMessage(text=event.text, sender=event.user)
    if wants_approval and event.text.strip(" .!").casefold() == "approve":
        await orders.approve(service, job)
    elif wants_approval and not asks:
        raise Problem(409, f"job {job.id} waits for approval: comment `@{LABEL} approve`")
    elif wants_approval:
        revise = message.model_copy(update={"kind": "revise"})
        await orders.send(service, job, revise, _name(event))
    elif at_work and not job.is_final:
        await orders.send(service, job, message, _name(event))
    else:
        _check_hearing(wanted, event)
    left = InboxMessage(_name(event), "say", event.text, event.user)
    await asyncio.to_thread(leave, service.lake, job.id, left)


def _check_hearing(wanted: JobRequest, event: Event) -> None:
    if event.text and not any(ARMS[arm.agent].hears for arm in wanted.arms):
        raise Problem(409, f"the agents of job {wanted.job_id} read no messages: wait for its end")


def _name(event: Event) -> str:
    """Return the id of an event's text as a message, however it is delivered."""
    return f"{event.number}-{event.at.isoformat()}-{event.user}"[:200]


async def _comment(forge: Forge, event: Event, text: str) -> None:
    """Comment where an event was. The forge may refuse that."""
    try:
        whole = f"{text}\n\n{SIGN}"
        await asyncio.to_thread(forge.comment, event.number, whole, is_pull=event.is_pull)
    except _REFUSALS as error:
        _log.warning("no comment on #%d: %s", event.number, one_line(error))


@asynccontextmanager
async def watching(service: Service, addresses: Sequence[str]) -> AsyncIterator[None]:
    """Read the events and the CI of repositories at intervals during the block."""
    tasks = [asyncio.create_task(_watch(service, address)) for address in addresses]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _watch(service: Service, address: str) -> None:
    since = datetime.now(UTC) - _CAUGHT_UP
    settled: set[str] = set()
    told: set[Event] = set()
    while True:
        now = datetime.now(UTC)
        try:
            source = repositories.source(address, forge_address())
            forge = await asyncio.to_thread(connect, source)
            events = await asyncio.to_thread(forge.read_events, since)
            commits = await asyncio.to_thread(repairs.find_commits, service, source)
        except _REFUSALS as error:
            _log.warning("%s: %s", address, one_line(error))
        else:
            events += [Event(now, commit=commit) for commit in commits if commit not in settled]
            is_whole = True
            for event in sorted(events, key=lambda each: each.at):
                try:
                    answer = await act(service, address, event, "", told)
                except _REFUSALS as error:  # it is read again
                    _log.warning("%s #%d: %s", address, event.number, one_line(error))
                    is_whole = False
                else:
                    if "job" in answer or answer["ignored"] in repairs.FINAL:
                        settled.add(event.commit)
            since = now - _OVERLAP if is_whole else since
        await asyncio.sleep(_LOOK_S)
