"""Approval of what a job or a pipeline made, in a form of Prefect's UI or by a command.

The flow run of a deployment is suspended until a person decides, and then begins anew. Finished
work is kept. A flow run of a command ends instead, and a command continues it.
"""

from uuid import UUID

import httpx
from prefect.client.orchestration import get_client
from prefect.context import FlowRunContext
from prefect.exceptions import ObjectNotFound, Pause
from prefect.flow_runs import aresume_flow_run, asuspend_flow_run
from prefect.input import RunInput
from prefect.settings import PREFECT_API_URL
from pydantic import Field, ValidationError

from flows.server.stopping import sign_off


class Approval(RunInput):
    """The decision on a patch that waits.

    It has no default: Prefect takes one for the decision if a flow run begins again without any.
    """

    approve: bool = Field(
        description="true: publish it, or let other steps build on it; false: cancel the job",
    )


async def decided(key: str, question: str) -> bool | None:
    """Return a person's decision, or None if the flow run cannot wait for one.

    The same key is asked once. `question` is shown above the form, in Markdown. A flow run that
    begins again without a decision, such as one whose worker was killed, cannot wait again.

    Raises:
        Pause: the flow run of a deployment is suspended now.
    """
    context = FlowRunContext.get()
    run = context.flow_run if context else None
    if run is None or run.deployment_id is None:
        return None
    asked = Approval.with_initial_data(description=question)
    try:
        answer = await asuspend_flow_run(wait_for_input=asked, key=key)
    except Pause:
        sign_off()  # as late as possible: a heartbeat after it would begin the watch anew
        raise
    except ValidationError:
        return None
    return bool(answer.approve)


async def approve(flow_run_id: str | None) -> bool:
    """Approve for a suspended flow run. Return False if no configured server has it."""
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
