"""Approval of a patch before it is published or built on: a message in the journal.

A waiting patch asks in a separate inbox, which has the answers of people. The command line, the
pages and the form of Prefect's UI only write there. The flow run of a deployment is suspended
meanwhile, and then starts again. The flow run of a command ends, and a command continues it.
"""

import asyncio
import getpass
import socket
from collections.abc import Sequence
from contextlib import suppress
from uuid import UUID

import httpx
from prefect.client.orchestration import get_client
from prefect.exceptions import ObjectNotFound, Pause
from prefect.flow_runs import aresume_flow_run, asuspend_flow_run
from prefect.input import RunInput
from prefect.settings import PREFECT_API_URL
from pydantic import Field, ValidationError

from agent.errors import LeaseHeld
from agent.journal import Attempt, InboxMessage, Journal, MessageKind
from agent.journal.holding import worker
from agent.journal.inbox import DECISIONS
from eval.digests import canonical_digest
from flows.server.flow_run import find_own
from flows.server.stopping import sign_off
from flows.storage.files import patch_sha256
from flows.storage.journals import open_journal
from flows.storage.lake import Lake, Row

_LEASE_S = 60
_MOST_CHARACTERS = 10_000


class Approval(RunInput):
    """The decision on a patch that waits.

    It has no default: Prefect uses it as the decision if a flow run starts again without one.
    """

    approve: bool = Field(
        description="true: publish it, or let other steps build on it; false: cancel the job",
    )


def is_approved(lake: Lake, row: Row) -> bool:
    """Return True if the last decision about the patch of a job is an approval."""
    messages = open_journal(lake).inbox(_address(row)).read()
    decisions = [message.kind for message in messages if message.kind in DECISIONS]
    return decisions[-1:] == ["approve"]


def is_asked(lake: Lake, row: Row) -> bool:
    """Return True if the patch of a job waits for a decision, or an earlier run has got one."""
    return open_journal(lake).inbox(_address(row)).wait() is not None


async def decide(lake: Lake, waiting: Sequence[Row], question: str) -> bool | None:
    """Return a person's decision on patches, or None if the flow run cannot wait for one.

    `question` is in Markdown. A flow run that starts again without a decision, for example after
    its worker was killed, cannot wait again.

    Raises:
        Pause: the flow run of a deployment is suspended now.
    """
    if all([await asyncio.to_thread(is_approved, lake, row) for row in waiting]):
        return True
    for row in waiting:
        await asyncio.to_thread(_ask, open_journal(lake), row, question)
    decision = await _ask_in_form("-".join(_address(row) for row in waiting), question)
    if decision is not None:
        for row in waiting:
            await asyncio.to_thread(answer, lake, row, "Prefect's form", is_approval=decision)
    return decision


async def approve(lake: Lake, row: Row) -> bool:
    """Approve the patch of a job, and resume its flow run.

    Return False if no configured server has it suspended: another run has to continue the job.
    """
    sender = f"{getpass.getuser()}@{socket.gethostname()}"
    await asyncio.to_thread(answer, lake, row, sender, is_approval=True)
    flow_run_id = row["flow_run_id"]
    if flow_run_id is None or not PREFECT_API_URL.value():
        return False
    async with get_client() as client:
        try:
            run = await client.read_flow_run(UUID(flow_run_id))
        except (ObjectNotFound, httpx.HTTPError):
            return False
    if run.state is None or not run.state.is_paused():
        return False
    await aresume_flow_run(run.id, run_input={"approve": True})
    return True


def answer(lake: Lake, row: Row, sender: str, *, is_approval: bool) -> None:
    """Write a decision on the patch of a job. The same decision again writes nothing."""
    journal = open_journal(lake)
    if is_approval and is_approved(lake, row):
        return
    _ask(journal, row, "")
    inbox = journal.inbox(_address(row))
    number = len(inbox.read())
    kind: MessageKind = "approve" if is_approval else "reject"
    inbox.send(InboxMessage(f"decision-{number}", kind, "", sender))


def _ask(journal: Journal, row: Row, question: str) -> None:
    """State in the journal that a patch waits for its next decision."""
    name = _address(row)
    journal.start(Attempt(name, f"approval-{row['job_id']}", "approval", row["job_id"], 0, "{}"))
    inbox = journal.inbox(name)
    wait = inbox.wait()
    if wait is not None and not wait.is_answered:
        return
    with suppress(LeaseHeld):  # another run of the job states the same
        lease = journal.acquire(name, worker(), _LEASE_S)
        inbox.begin_wait(lease, "approval", question[:_MOST_CHARACTERS], len(inbox.read()))
        journal.release(lease)


def _address(row: Row) -> str:
    """Return the address of the inbox of a patch. Another patch of the job is asked for anew."""
    return f"approval-{canonical_digest([row['job_id'], patch_sha256(row['patch'])])[:20]}"


async def _ask_in_form(key: str, question: str) -> bool | None:
    run = find_own()
    if run is None or run.deployment_id is None:
        return None
    form = Approval.with_initial_data(description=question)
    try:
        approval = await asuspend_flow_run(wait_for_input=form, key=key)
    except Pause:
        sign_off()  # as late as possible: a heartbeat after it would restart the watch
        raise
    except ValidationError:
        return None
    return bool(approval.approve)
