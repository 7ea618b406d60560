"""Check a recipe on a bundled task before money is spent on it."""

import json
import os
import re
import shlex
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from textwrap import shorten

from agent import models
from agent.arms import ARMS
from agent.arms.command.arm import list_routes
from agent.arms.command.recipe import Recipe
from agent.errors import AgentError, InfrastructureError, NoProgram
from agent.gateway.equivalence import count_common
from agent.journal import Attempt, Journal
from agent.journal.blobs import Blobs
from agent.journal.holding import hold_lease
from agent.models import patches
from agent.models.chat import bash_call, tokens
from agent.models.protocol import Message, Model, ModelInfo, ModelReply, ModelRequest, Usage
from agent.session.log import JournalLog
from agent.session.session import Session
from agent.types import Outcome, Task
from flows.display.errors import UsageError
from flows.experiments import declaration, plan, workspaces
from flows.experiments.cells import Cell, Place
from flows.experiments.cells import plan as cells_of
from flows.storage.lake import Row
from flows.storage.outputs import show_output
from reports.format import plural

_INSTANCE = "durabench__gridprint-1"
_RUN_LIMIT_S = 600.0
_CANARY = "canary-3b9e51"
_KEYS = ("OPENAI_API_KEY", "ANTHROPIC_API_KEY")
_END = "COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"
_USD_PER_CALL = 0.001
_DURATIONS = (
    "python3 -m pytest -q --durations=5 --durations-min=0 -p no:cacheprovider 2>&1 | tail -40"
)
_LOOK = "env; cat /proc/[0-9]*/environ 2>/dev/null | tr '\\0' '\\n'"
_LOOKED = "DURABENCH_URL=http"
_ESCAPES = r"\\.|[\n\"]"
_NEAR = 24
"""Characters around a difference that a pattern names."""
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
    """A model that works as agents do, applies the reference patch, and ends.

    Two of its commands run at the same time, others search and print durations. The last one looks
    for keys. It ends the first run before that, to see what a restart finds in the record.
    """

    info = ModelInfo("guide", "scripted")

    def __init__(self, task: Task) -> None:
        quoted = shlex.quote(task.reference_patch)
        self._turns = [
            ["ls", "git log --oneline | head -3"],
            ["grep -rn import --include='*.py' ."],
            [_DURATIONS],
            [f"printf %s {quoted} | git apply --whitespace=nowarn -"],
            [_DURATIONS],
            [_LOOK],
        ]
        self._patch = task.reference_patch
        self._has_ended_a_run = False
        self.calls = 0
        self.seen: list[str] = []

    def ceiling_usd(self, request: ModelRequest) -> float:
        """Return the cost that each call states."""
        return _USD_PER_CALL

    async def complete(self, request: ModelRequest) -> ModelReply:
        """Return the next step of the script, by the turns of the conversation.

        Raises:
            InfrastructureError: the first run ends here.
        """
        self.seen.append(json.dumps(request.messages))
        turn = sum(message["role"] == "assistant" for message in request.messages)
        is_late = turn == len(self._turns) - 1 if request.tools else self.calls == 1 and turn
        if is_late and not self._has_ended_a_run:
            self._has_ended_a_run = True
            raise InfrastructureError("the check ends the first run", retryable=False)
        self.calls += 1
        message: Message = {"role": "assistant", "content": "The repository is repaired."}
        if request.tools and turn < len(self._turns):
            calls = [
                bash_call(command, call_id=f"call_{turn}_{number}")["tool_calls"][0]
                for number, command in enumerate(self._turns[turn])
            ]
            message = {"role": "assistant", "content": "I work.", "tool_calls": calls}
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
    with tempfile.TemporaryDirectory(prefix="durabench-check-") as folder:
        try:
            with _canary():
                with suppress(InfrastructureError):
                    await _run(cell, guide, Path(folder))
                outcome = await _run(cell, guide, Path(folder), show_output)
        except NoProgram as error:
            raise UsageError(str(error)) from error
    with tempfile.TemporaryDirectory(prefix="durabench-check-") as folder:
        away = await _ends_as_infrastructure(cell, Path(folder))
    report = (outcome.report or {})["command"]
    stated, wanted = report["agent_version"], chosen.version
    seen = "".join([*guide.seen, outcome.patch, outcome.detail])
    return chosen, [
        AdmissionGate("solved", bool(outcome.patch), _line(f"{outcome.status}, {outcome.detail}")),
        AdmissionGate("metered", guide.calls > 0, f"{guide.calls} model calls{_unknown(outcome)}"),
        AdmissionGate(
            "version", bool(wanted) and wanted in stated, f"{stated!r}, recipe {wanted!r}"
        ),
        AdmissionGate("no key inside", _CANARY not in seen, _WAYS[_LOOKED in seen]),
        _check_restart(report),
        away,
    ]


def _check_restart(report: Row) -> AdmissionGate:
    """Check that a restarted program gets its recorded answers, and name the cure if not."""
    found, lost = report["answered_from_record"], len(report["unused_calls"])
    detail = f"{found} of {plural(found + lost, 'recorded answer')} found after a restart"
    kinds = sorted({kind for each in report["loosened"] for kind in each["kinds"]})
    if kinds:
        detail += f"; differences not compared: {', '.join(kinds)}"
    difference = report["first_difference"]
    if lost and difference:
        detail += (
            f"; the first difference is in {difference['place']}:\n"
            f"      {difference['before']!r}\n      {difference['after']!r}\n"
            f"      {suggest_volatile(**difference)}"
        )
    return AdmissionGate("resumed", not lost, detail)


def suggest_volatile(place: str, before: str, after: str) -> str:
    """Return the line of a recipe that makes two requests equal."""
    if not place.startswith("message "):
        return f"add `{place}` to `volatile` of the recipe, if no answer depends on it"
    at = count_common(before, after)
    word = r"[\w.:+-]*"
    begin = at - len(_search(rf"{word}$", before[:at]))
    values = {letter for text in (before, after) for letter in _search(rf"^{word}", text[begin:])}
    kinds = [kind for kind in ("0-9", "a-z", "A-Z") if re.search(f"[{kind}]", "".join(values))]
    others = "".join(re.escape(letter) for letter in sorted(values) if not letter.isalnum())
    end = begin + len(_search(rf"^{word}", before[begin:]))
    around = (
        re.split(_ESCAPES, before[:begin])[-1][-_NEAR:],
        re.split(_ESCAPES, before[end:])[0][:_NEAR],
    )
    lead, rest = (re.escape(text).replace("\\ ", " ") for text in around)
    line = f"{lead}[{''.join(kinds)}{others}]+{'' if lead else rest}"
    return f"add {json.dumps(line)} to `volatile_text` of the recipe, if nothing else differs"


def _search(pattern: str, text: str) -> str:
    match = re.search(pattern, text)
    return match[0] if match else ""


async def _run(
    cell: Cell,
    model: Model,
    folder: Path,
    on_output: Callable[[str], None] = lambda output: None,
) -> Outcome:
    """Run the program once, as an attempt whose journal is in a folder."""
    name = f"check-{folder.name}"
    journal = Journal.open(f"sqlite:///{folder}/journal.sqlite")
    journal.start(Attempt(name, "admission", "checked", cell.instance.instance_id, 0, "{}"))
    places = workspaces.AttemptWorkspaces(cell.instance, cell.place, name, journal.id, name)
    async with hold_lease(journal, name) as lease:
        log = JournalLog(journal, lease, Blobs(folder / "blobs"), journal.steps(name))
        async with Session.start(
            attempt_id=name, models={"": model}, workspaces=places, log=log, on_output=on_output
        ) as session:
            return await ARMS["command"].solve(cell.task, session, cell.arm.options)


async def _ends_as_infrastructure(cell: Cell, folder: Path) -> AdmissionGate:
    """Check that an unreachable provider never ends as an empty patch."""
    name = "provider away"
    try:
        with _canary():
            outcome = await _run(cell, models.build(models.parse(_NOWHERE), cell.task, 0), folder)
    except InfrastructureError as error:
        return AdmissionGate(name, True, _line(f"infrastructure: {error}"))
    except AgentError as error:
        return AdmissionGate(name, False, _line(f"{type(error).__name__}: {error}"))
    return AdmissionGate(name, False, _line(f"ended as {outcome.status}: {outcome.detail}"))


def _unknown(outcome: Outcome) -> str:
    routes = (outcome.report or {})["command"].get("unknown_routes")
    return f", unknown: {list_routes(routes)}" if routes else ""


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
