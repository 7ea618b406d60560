"""The loop arm compared with the `mini` arm: as many tool calls, over Docker and HTTP."""

import asyncio
import json
import os
import time
from pathlib import Path
from typing import Any

from agent import models
from agent.arms import ARMS, ArmKind
from agent.journal import Attempt, Journal
from agent.journal.blobs import Blobs
from agent.journal.holding import hold_lease
from agent.session.log import JournalLog
from agent.session.session import Session
from agent.types import Task
from eval import images, instances
from eval.types import Instance
from flows.experiments.cells import Place
from flows.experiments.workspaces import AttemptWorkspaces
from tests.bench.timing import Ratio
from tests.servers.openai_server import OpenAIServer, Reply, completion

CALLS, LIMIT = 50, 1.5

_CHANGE = "echo changed >> README.md && git diff -- README.md > /tmp/patch.txt"
_SUBMIT = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT && cat /tmp/patch.txt"


def run(folder: Path, *, pairs: int) -> Ratio:
    """Measure attempts of both arms alternately, on a server that answers at once."""
    [instance] = instances.load(instances.BUNDLED)[:1]
    repo = instances.task_repo(instances.BUNDLED)
    assert repo is not None
    list(images.build([instance], repo))
    os.environ.setdefault("OPENAI_API_KEY", "none")
    seconds: dict[ArmKind, list[float]] = {"loop": [], "mini": []}
    with OpenAIServer(_reply) as server:
        for number in range(1 + pairs):  # the first loads the libraries
            for arm, measured in seconds.items():
                own = folder / f"{arm}-{number}"
                own.mkdir(parents=True)
                measured.append(asyncio.run(_attempt(arm, instance, server.url, own)))
    ours, theirs = (measured[1:] for measured in seconds.values())
    title = f"an attempt of the loop arm with {CALLS} tool calls, against one of mini"
    return Ratio(title, ours, theirs, LIMIT)


async def _attempt(arm: ArmKind, instance: Instance, url: str, folder: Path) -> float:
    """Return the seconds that an attempt takes, with its container.

    Raises:
        RuntimeError: it ended otherwise than with the change.
    """
    task = Task(instance.instance_id, instance.problem_statement, instance.base_commit, "")
    spec = {"provider": "litellm", "name": "openai/test-model", "api_base": url}
    model = models.build(models.parse(spec), task, 0)
    journal = Journal.open(f"sqlite:///{folder}/journal.sqlite")
    journal.start(Attempt(arm, "bench", arm, instance.instance_id, 0, "{}"))
    clock = time.perf_counter()
    async with hold_lease(journal, arm) as lease:
        log = JournalLog(journal, lease, Blobs(folder / "blobs"), ())
        place = AttemptWorkspaces(instance, Place("docker"), arm, journal.id, f"bench-{arm}")
        async with Session.start(
            attempt_id=arm, models={"": model}, workspaces=place, log=log
        ) as session:
            outcome = await ARMS[arm].solve(task, session, ARMS[arm].options())
            commands = sum(step.kind != "model" for step in session.steps)
    seconds = time.perf_counter() - clock
    journal.close()
    if outcome.status != "submitted" or "+changed" not in outcome.patch or commands < CALLS:
        raise RuntimeError(f"{arm} ended as {outcome} after {commands} steps")
    return seconds


def _reply(body: dict[str, Any]) -> Reply:
    """Ask for commands, then for a change, and end."""
    turn = sum(message["role"] == "assistant" for message in body["messages"])
    is_mini = body["tools"][0]["function"]["name"] == "bash"
    last = CALLS - (2 if is_mini else 1)
    if turn < last:
        return _call(is_mini, f"echo step {turn} && git status --short")
    if turn == last:
        return _call(is_mini, _CHANGE)
    if is_mini:
        return _call(is_mini, _SUBMIT)
    return _tool("answer", {"summary": "changed", "status": "done"})


def _call(is_mini: bool, command: str) -> Reply:
    return _tool("bash" if is_mini else "run_command", {"command": command})


def _tool(name: str, arguments: dict[str, Any]) -> Reply:
    call = {"name": name, "arguments": json.dumps(arguments)}
    called = [{"id": "call_test", "type": "function", "function": call}]
    message = {"role": "assistant", "content": "On.", "tool_calls": called}
    return completion(message, finish_reason="tool_calls")
