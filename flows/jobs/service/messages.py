"""Messages of people to the attempts of a job, and what was said."""

import asyncio
from typing import Annotated, Any
from uuid import uuid4

from fastapi import APIRouter, Header
from pydantic import BaseModel, ConfigDict, Field

from agent.errors import InfrastructureError, MessageRefused
from agent.journal import Attempt, InboxMessage, MessageKind
from flows.jobs.chats import asking, history
from flows.jobs.chats.mailbox import Mailbox, check, hears
from flows.jobs.server import waking
from flows.jobs.service.board import JobStatus, asked
from flows.jobs.service.problems import Problem
from flows.jobs.service.services import Service, Used
from flows.storage.lake import Lake

router = APIRouter()


class JobMessage(BaseModel):
    """A message to an attempt of a job."""

    model_config = ConfigDict(extra="forbid")

    text: str = Field(default="", description="the text; only `say` and `revise` need one")
    kind: MessageKind = Field(
        default="say",
        description="say: read before the next call, or an answer; approve, revise, reject: a "
        "decision on what waits for one; end: no further call",
    )
    arm: str | None = Field(
        default=None, description="arm of the attempt; needed if several arms are at work"
    )
    sender: str = Field(default="service", description="who says it, as the model reads it")


@router.get("/jobs/{job_id}/messages")
async def received(job_id: str, service: Used) -> dict[str, Any]:
    """Return what was said to the attempts of a job and by them, and what they wait for."""
    job = await service.board.status(job_id)
    return await asyncio.to_thread(_said, service.lake, job)


@router.post("/jobs/{job_id}/messages", status_code=202)
async def send(
    job_id: str,
    message: JobMessage,
    service: Used,
    idempotency_key: Annotated[str | None, Header()] = None,
) -> dict[str, Any]:
    """Send a message to a job at work. The same `Idempotency-Key` again sends nothing new."""
    job = await service.board.status(job_id)
    return await sent(service, job, message, idempotency_key)


async def sent(
    service: Service, job: JobStatus, message: JobMessage, key: str | None = None
) -> dict[str, Any]:
    """Send a message, and have the job carried on if no worker has the attempt. Return it as JSON.

    Raises:
        Problem: the job has no attempt that can take it, or the message is none.
    """
    named = InboxMessage(key or uuid4().hex, message.kind, message.text, message.sender)
    try:
        check(named)
    except MessageRefused as error:
        raise Problem(422, str(error)) from None
    attempt = await asyncio.to_thread(_attempt, service.lake, job, message.arm)
    mailbox = await asyncio.to_thread(Mailbox.of, service.lake, attempt.attempt_id)
    try:
        done = await asyncio.to_thread(mailbox.pass_on, named)
    except MessageRefused as error:
        raise Problem(409, str(error)) from None
    seen = await asyncio.to_thread(mailbox.seen)
    if seen.holder is None and seen.standing != "ended":
        try:
            await asked(waking.carried_on(service.client, attempt, done.n, service.lake))
        except InfrastructureError as error:
            raise Problem(503, f"the message is sent, but no worker is asked: {error}") from None
    return {
        "id": done.id,
        "n": done.n,
        "kind": done.kind,
        "text": done.text,
        "sender": done.sender,
        "arm": attempt.arm,
        "attempt": attempt.attempt_id,
        "sent_at": done.sent_at.isoformat(timespec="milliseconds") if done.sent_at else None,
    }


def _attempt(lake: Lake, job: JobStatus, arm: str | None) -> Attempt:
    """Return the attempt that a message is for: that of an arm, or the only one that is open.

    Raises:
        Problem: there is none, or there are several.
    """
    if job.is_final:
        raise Problem(409, f"job {job.id} has ended: it is {job.state}")
    found = asking.open_attempts(lake, job.id)
    chosen = [each for each in found if arm in (None, each.arm)]
    if len(chosen) == 1:
        return chosen[0]
    if chosen:
        names = ", ".join(each.arm for each in chosen)
        raise Problem(422, f"several arms are at work: name one of {names} in the field arm")
    at_work = ", ".join(each.arm for each in found)
    no_other = f": {at_work} {'is' if len(found) == 1 else 'are'}" if found else " so far"
    whose = f"arm {arm!r}" if arm else "no arm"
    verb = "is not" if arm else "is"
    raise Problem(409, f"{whose} of job {job.id} {verb} at work{no_other}; the job is {job.state}")


def hearing(lake: Lake, job: JobStatus) -> list[str]:
    """Return the arms of a job that are at work and hear messages."""
    if job.is_final:
        return []
    return [each.arm for each in asking.open_attempts(lake, job.id) if hears(each)]


def _said(lake: Lake, job: JobStatus) -> dict[str, Any]:
    waits = [each.as_json() for each in asking.asking(lake, job.id)]
    return {"asks": waits, "messages": said(lake, job.id)}


def said(lake: Lake, job_id: str) -> list[dict[str, Any]]:
    """Return what was said to the attempts of a job and by them, each attempt by itself."""
    found = []
    for attempt in asking.all_attempts(lake, job_id):
        mailbox = Mailbox.of(lake, attempt.attempt_id)
        steps = mailbox.journal.steps(attempt.attempt_id)
        for remark in history.remarks(steps, mailbox.received()):
            if remark.speaker != "tool":
                found.append(
                    {
                        "arm": attempt.arm,
                        "speaker": remark.speaker,
                        "name": remark.name,
                        "text": remark.text,
                        "at": remark.at.isoformat(timespec="milliseconds") if remark.at else None,
                        "is_read": not remark.is_unread,
                    }
                )
    return found
