"""Check a recipe on a bundled task before money is spent on it."""

import json
import os
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from textwrap import shorten

from agent import models
from agent.arms import ARMS
from agent.arms.command.recipe import Recipe
from agent.errors import AgentError, InfrastructureError, NoProgram
from agent.models import patches
from agent.models.chat import bash_call, tokens
from agent.models.protocol import Model, ModelInfo, ModelReply, ModelRequest, Usage
from agent.session.session import Session
from agent.types import Outcome, Task
from flows.display.errors import UsageError
from flows.experiments import declaration, plan, workspaces
from flows.experiments.cells import Cell, Place
from flows.experiments.cells import plan as cells_of

_INSTANCE = "durabench__gridprint-1"
_RUN_LIMIT_S = 600.0
_CANARY = "canary-3b9e51"
_KEYS = ("OPENAI_API_KEY", "ANTHROPIC_API_KEY")
_END = "COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"
_USD_PER_CALL = 0.001
_LOOK = "env; cat /proc/[0-9]*/environ 2>/dev/null | tr '\\0' '\\n'"
_LOOKED = "DURABENCH_URL=http"
_WAYS = ("it has no shell: its requests and patch were read", "all its processes were looked at")
"""The search for a key, in a program without a shell and in one with a shell."""

_NOWHERE = {"name": "openai/gpt-4o", "api_base": "http://127.0.0.1:9/v1", "max_retries": 0}


@dataclass(frozen=True)
class AdmissionGate:
    """One condition for admission."""

    name: str
    passed: bool
    detail: str


class _Guide:
    """A model that looks for keys, applies the reference patch, and ends."""

    info = ModelInfo("guide", "scripted")

    def __init__(self, task: Task) -> None:
        quoted = shlex.quote(task.reference_patch)
        self._commands = [_LOOK, f"printf %s {quoted} | git apply --whitespace=nowarn -"]
        self._patch = task.reference_patch
        self.calls = 0
        self.seen: list[str] = []

    def ceiling_usd(self, request: ModelRequest) -> float:
        """Return the cost that each call states."""
        return _USD_PER_CALL

    async def complete(self, request: ModelRequest) -> ModelReply:
        """Return the next step of the script, by the turns of the conversation."""
        self.calls += 1
        self.seen.append(json.dumps(request.messages))
        turn = sum(message["role"] == "assistant" for message in request.messages)
        message = {"role": "assistant", "content": "The repository is repaired."}
        if request.tools and turn < len(self._commands):
            message = bash_call(self._commands[turn], call_id=f"call_{turn}", content="I work.")
        elif not request.tools and patches.are_wanted(request.messages):
            message["content"] = patches.reply(self._patch, request.messages)
        elif request.tools and _END in self.seen[-1]:
            message = bash_call(f"echo {_END}", call_id=f"call_{turn}", content="Done.")
        usage = Usage(tokens(request.messages), 0, 0, tokens([message]), 0, _USD_PER_CALL)
        return ModelReply(message, usage, "simulated", self.info.name, "stop")


async def admit(
    recipe: str, environment: str, release: str | None = None
) -> tuple[Recipe, list[AdmissionGate]]:
    """Run a recipe with a free model, and with an unreachable model.

    Raises:
        UsageError: there is no such recipe, it is invalid, or the program is not where it says.
        InfrastructureError: the workspace is not available.
    """
    options = {"recipe": recipe, "release": release, "run_limit_s": _RUN_LIMIT_S}
    content = {
        "name": "admission",
        "environment": environment,
        "select": {"ids": [_INSTANCE]},
        "model": {"provider": "simulated", "skill": 1},
        "arms": [{"name": "checked", "agent": "command", "options": options}],
    }
    experiment = declaration.parse(content, "agents check")
    instances = plan.load(experiment)
    place = Place(await workspaces.decide(environment, instances))
    [cell] = cells_of(experiment, instances, place)
    chosen: Recipe = cell.arm.options.program  # type: ignore[attr-defined]
    guide = _Guide(cell.task)
    try:
        with _canary():
            outcome = await _run(cell, guide, "admission")
    except NoProgram as error:
        raise UsageError(str(error)) from error
    stated, wanted = (outcome.report or {})["command"]["agent_version"], chosen.version
    seen = "".join([*guide.seen, outcome.patch, outcome.detail])
    return chosen, [
        AdmissionGate("solved", bool(outcome.patch), _line(f"{outcome.status}, {outcome.detail}")),
        AdmissionGate("metered", guide.calls > 0, f"{guide.calls} model calls"),
        AdmissionGate(
            "version", bool(wanted) and wanted in stated, f"{stated!r}, recipe {wanted!r}"
        ),
        AdmissionGate("no key inside", _CANARY not in seen, _WAYS[_LOOKED in seen]),
        await _ends_as_infrastructure(cell),
    ]


async def _run(cell: Cell, model: Model, attempt_id: str) -> Outcome:
    name = f"{attempt_id}-{os.getpid()}"
    places = workspaces.AttemptWorkspaces(cell.instance, cell.place, name, "admission", name)
    async with Session.start(attempt_id=name, models={"": model}, workspaces=places) as session:
        return await ARMS["command"].solve(cell.task, session, cell.arm.options)


async def _ends_as_infrastructure(cell: Cell) -> AdmissionGate:
    """Check that an unreachable provider never ends as an empty patch."""
    name = "provider away"
    try:
        with _canary():
            outcome = await _run(cell, models.build(models.parse(_NOWHERE), cell.task, 0), "away")
    except InfrastructureError as error:
        return AdmissionGate(name, True, _line(f"infrastructure: {error}"))
    except AgentError as error:
        return AdmissionGate(name, False, _line(f"{type(error).__name__}: {error}"))
    return AdmissionGate(name, False, _line(f"ended as {outcome.status}: {outcome.detail}"))


def _line(text: str) -> str:
    return shorten(text, 120, placeholder=" …")


@contextmanager
def _canary() -> Iterator[None]:
    """Give this process keys that must not be seen anywhere else."""
    before = {name: os.environ.get(name) for name in _KEYS}
    os.environ.update(dict.fromkeys(_KEYS, _CANARY))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
