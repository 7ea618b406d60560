"""Durable agents with tools that are Python functions, for programs that import this package."""

import asyncio
import inspect
import json
import re
import subprocess
import warnings
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from functools import cached_property, wraps
from pathlib import Path
from typing import Any, ClassVar

from pydantic import PydanticUserError, create_model

from agent import models
from agent.capabilities.base import Agent, Capability, Crew, Spoken, conversation
from agent.capabilities.registry import FIRST, load
from agent.conversation.exchanges import Meter
from agent.conversation.person import Person
from agent.errors import InvalidSpec, LimitReached, ToolFailed, one_line
from agent.journal import Attempt, Journal, Limit
from agent.journal.blobs import Blobs
from agent.journal.holding import hold_lease
from agent.models.protocol import Model
from agent.session.log import JournalLog
from agent.session.reuse import fingerprint
from agent.session.session import Session
from agent.session.steps import Step
from agent.tools.protection import Protection
from agent.tools.tool import Arguments, Tool, ToolResult, ToolSettings
from agent.types import Task
from agent.workspaces import Environment, HostWorkspace, Mount, Workspace
from agent.workspaces.host import make_empty_repository

_NAME = re.compile(r"\w[\w. -]{0,99}")

PROMPT = "You do what a person asks, with your tools, and say the result in a few sentences."


@dataclass(frozen=True)
class AgentResult:
    """The end of a run."""

    status: str
    """`done`, or the reason for a missing answer, such as `out_of_rounds`."""
    text: str
    """The answer, or the reason in words."""
    patch: str
    """The changes of files in the folder, as a unified diff."""
    cost_usd: float | None
    """Of all calls of all processes; None if a price is unknown."""
    calls: int


class DurableAgent:
    """An agent whose model calls and uses of tools are recorded, so that any process can resume it.

    The model is a LiteLLM name, a specification as in experiments, or an object with the `Model`
    protocol. A tool is a function, also an async one, with type hints and a docstring. `folder` is
    a git repository, of which the agent gets a copy; the built-in `capabilities` work on that, as
    commands do: on this machine, without isolation.
    """

    def __init__(
        self,
        model: str | dict[str, Any] | Model,
        tools: Sequence[Callable[..., Any]] = (),
        *,
        state: str | Path = ".durable",
        prompt: str = PROMPT,
        folder: str | Path | None = None,
        capabilities: Sequence[str] = (),
        budget_usd: float | None = None,
        rounds: int = 60,
    ) -> None:
        """Keep the journal in the folder `state`. A run makes at most `rounds` model calls.

        Raises:
            InvalidSpec: the model, a tool or a capability is invalid.
        """
        own = Capability("own", tuple(make_tool(function) for function in tools))
        self._capabilities = (own, *load(capabilities))
        names = [tool.name for capability in self._capabilities for tool in capability.tools]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise InvalidSpec(f"two tools have the name {twice[0]}: the model could not choose")
        self._model, self._prompt, self._rounds = model, prompt, rounds
        self._budget_usd = budget_usd
        self._state = Path(state).absolute()
        self._folder = None if folder is None else Path(folder).absolute()

    async def run(
        self, task: str, name: str = "first", on_step: Callable[[Step], None] = lambda step: None
    ) -> AgentResult:
        """Work on a task until the agent answers. `on_step` receives each step as it ends.

        A run with a name that exists continues it, in whatever process: recorded steps answer at
        once, and an ended run has its result.

        Raises:
            BudgetExhausted: the next call could cost more than is left.
            DivergenceError: the prompt or the tools have changed since the first run.
            InfrastructureError: a model or the journal cannot be reached; run it again.
            InvalidSpec: the name belongs to another task.
            LeaseHeld: another process works on it.
        """
        if not _NAME.fullmatch(name):
            raise InvalidSpec(f"{name!r} is not a name of a run: use letters, digits, and _ . -")
        work = Task(name, task, "HEAD", "")
        attempt = Attempt(name, "library", "agent", name, 0, json.dumps({"task": task}))
        recorded = await asyncio.to_thread(self._journal.attempt, name)
        if recorded is not None and recorded.spec != attempt.spec:
            raise InvalidSpec(f"run {name!r} has another task: give this one another name")
        await asyncio.to_thread(self._journal.start, attempt)
        async with hold_lease(self._journal, name) as lease:
            outcome = await asyncio.to_thread(self._journal.outcome, name)
            if outcome is not None:
                return AgentResult(**json.loads(outcome))
            steps = await asyncio.to_thread(self._journal.steps, name)
            limits = (
                ()
                if self._budget_usd is None
                else (Limit("attempt", name, self._budget_usd, None),)
            )
            log = JournalLog(self._journal, lease, Blobs(self._state / "blobs"), steps, limits)
            async with Session.start(
                attempt_id=name,
                models={"": self._build_model(work)},
                workspaces=_Copies(f"{fingerprint(str(self._state))[:8]}-{name}", self._folder),
                log=log,
                on_step=on_step,
            ) as session:
                status, text = await self._solve(work, session)
                patch = await session.diff()
            account = await asyncio.to_thread(self._journal.account, name)
            result = AgentResult(status, text, patch, account.billed_usd, account.calls_billed)
            await asyncio.to_thread(self._journal.end, lease, json.dumps(asdict(result)))
            return result

    async def stream(self, task: str, name: str = "first") -> AsyncIterator[Step | AgentResult]:
        """Yield the steps of a run as they end, and then its result.

        Raises:
            AgentError: as `run`.
        """
        queue: asyncio.Queue[Step | None] = asyncio.Queue()
        running = asyncio.create_task(self.run(task, name, queue.put_nowait))
        running.add_done_callback(lambda _: queue.put_nowait(None))
        try:
            while (step := await queue.get()) is not None:
                yield step
            yield await running
        finally:
            running.cancel()

    @cached_property
    def _journal(self) -> Journal:
        self._state.mkdir(parents=True, exist_ok=True)
        return Journal.open(f"sqlite:///{self._state}/journal.sqlite")

    def _build_model(self, task: Task) -> Model:
        if isinstance(self._model, str | dict):
            return models.build(models.parse(self._model), task, 0)
        if not hasattr(self._model, "complete"):
            raise InvalidSpec(
                f"{self._model!r} is not a model: give its name, such as openai/gpt-5"
            )
        return self._model

    async def _solve(self, task: Task, session: Session) -> tuple[str, str]:
        crew = Crew(task, Meter(session, None, None), ToolSettings(), Protection(is_on=False), load)
        agent = Agent(crew, FIRST, self._capabilities, self._rounds, self._prompt)
        scope = session.scope("work")
        person = Person(scope, is_chat=True)
        try:
            talk = conversation(agent, {"task": task.statement}, Spoken, scope, person)
            exchange = await talk.until_answer()
        except (LimitReached, ToolFailed) as error:
            return "gave_up", str(error)
        return ("done", exchange.answer.text) if exchange.answer else (exchange.end, exchange.end)


def make_tool(function: Callable[..., Any]) -> Tool[Any]:
    """Return a function as a tool: its name, its docstring, and its parameters with their types.

    The model gets the value that it returns as text: a text as it is, others as JSON. Each use is
    a step. A use that a crash cut off is repeated.

    Raises:
        InvalidSpec: a parameter has no name or no type that JSON can express, or the docstring is
            missing.
    """
    name, text = getattr(function, "__name__", ""), inspect.getdoc(function)
    if not name.isidentifier():
        raise InvalidSpec(
            f"{function!r} is not a tool: define a function with `def` or `async def`"
        )
    try:
        parameters = inspect.signature(function, eval_str=True).parameters.values()
    except NameError as error:
        raise InvalidSpec(f"tool {name}: the type of a parameter is unknown: {error}") from None
    untyped = [
        parameter.name for parameter in parameters if parameter.annotation is parameter.empty
    ]
    if untyped or not text:
        missing = f"a type for {', '.join(untyped)}" if untyped else "a docstring"
        raise InvalidSpec(f"tool {name} needs {missing}: the model reads it")
    for parameter in parameters:
        if (
            parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
            or parameter.name[0] == "_"
        ):
            raise InvalidSpec(
                f"tool {name}: the model cannot give {parameter}: it names parameter argument"
            )
    fields: Any = {
        each.name: (each.annotation, ... if each.default is each.empty else each.default)
        for each in parameters
    }
    try:
        with warnings.catch_warnings(action="ignore"):  # a parameter may be named `copy` or `json`
            arguments = create_model(name, __base__=Arguments, __doc__=text, **fields)
        arguments.model_json_schema()
    except PydanticUserError as error:
        line = one_line(error).partition(". ")[0]
        raise InvalidSpec(f"tool {name}: JSON has no type for a parameter: {line}") from None

    @wraps(function)
    async def run(workspace: Workspace, settings: ToolSettings, asked: Arguments) -> ToolResult:
        given = {each: getattr(asked, each) for each in fields}
        if inspect.iscoroutinefunction(function):
            value = await function(**given)
        else:
            value = await asyncio.to_thread(function, **given)
        if inspect.isawaitable(value):
            value = await value
        return ToolResult(value if isinstance(value, str) else _write_json(value))

    return Tool(name, arguments, run, changes_files=True)


def _write_json(value: Any) -> str:
    """Return a value as JSON; as Python writes it if JSON cannot express it."""
    try:
        return json.dumps(value, default=str)
    except (TypeError, ValueError):  # keys that are not texts, or a circle
        return repr(value)


@dataclass(frozen=True)
class _Copies:
    """Copies of a repository on this machine, or of an empty one."""

    name: str
    folder: Path | None
    network = True
    environment: ClassVar[Environment] = "host"

    @property
    def root(self) -> str:
        return HostWorkspace.root_of(self.name)

    def mounting(self, mounts: Sequence[Mount]) -> "_Copies":
        return self

    @asynccontextmanager
    async def open(self, name: str, *, image: str, goes_on: bool) -> AsyncIterator[HostWorkspace]:
        workspace = await HostWorkspace.open(
            prepare=self._prepare,
            base_commit="HEAD",
            name="-".join([self.name, *filter(None, name.split("/"))]),
        )
        try:
            yield workspace
        finally:
            await workspace.close()

    def _prepare(self, path: Path) -> None:
        if self.folder is not None:
            command = ["git", "clone", "-q", "--", str(self.folder), str(path)]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                raise InvalidSpec(f"folder {self.folder}: {' '.join(done.stderr.split())}")
            return
        make_empty_repository(path)
