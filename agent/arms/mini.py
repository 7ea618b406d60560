"""The lightweight baseline: mini-swe-agent's own agent on our model and workspace.

`DefaultAgent`, its prompts, templates, limits, parsing of replies and texts of observations come
from the package, unchanged. Durabench only routes model calls and commands through the session.
The agent is synchronous code, so each attempt runs it in its own thread, which waits on the
session's event loop.
"""

import asyncio
import functools
import os
import subprocess
from collections.abc import Coroutine
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeVar

os.environ.setdefault("MSWEA_SILENT_STARTUP", "1")  # the package prints a banner on import

import yaml
from minisweagent.agents.default import DefaultAgent
from minisweagent.config import builtin_config_dir
from minisweagent.environments.docker import DockerEnvironment
from minisweagent.exceptions import FormatError
from minisweagent.models.utils.actions_text import format_observation_messages, parse_regex_actions
from minisweagent.models.utils.actions_toolcall import (
    BASH_TOOL,
    format_toolcall_observation_messages,
    parse_toolcall_actions,
)

from agent.arms.options import MiniOptions
from agent.conversation.protocols import list_requested_calls, text_of
from agent.conversation.replies import MINI_ACTION
from agent.errors import ContextWindowExceeded, OutOfTime, Undone
from agent.models.protocol import ModelInfo, ModelReply, ModelRequest
from agent.session.session import Session
from agent.types import Outcome, OutcomeStatus, Task, get_end_status

T = TypeVar("T")
Settings = dict[str, Any]


async def solve(task: Task, session: Session, options: MiniOptions) -> Outcome:
    """Run the agent until it ends by its own rules.

    Raises:
        InfrastructureError: the model or the workspace failed.
    """
    settings = _settings(session.model().info, session.workspaces.root, options)
    bridge = _LoopBridge(asyncio.get_running_loop())
    agent = DefaultAgent(
        _SessionModel(session, bridge, settings["model"]),
        _SessionEnvironment(session, bridge, settings["environment"]),
        **settings["agent"],
    )
    with ThreadPoolExecutor(1, thread_name_prefix=task.id) as thread:
        try:
            info = await asyncio.wrap_future(thread.submit(agent.run, task.statement))
        except ContextWindowExceeded as error:
            return Outcome(get_end_status(error), "", f"ContextWindowExceeded: {error}")
        except OutOfTime as error:
            return Outcome(get_end_status(error), "", str(error))
        finally:
            bridge.close()
    status: OutcomeStatus = "gave_up"
    match info["exit_status"]:
        case "Submitted":
            status = "submitted"
        case "TimeExceeded":
            status = "out_of_time"
        case "LimitsExceeded":
            is_out_of_steps = 0 < agent.config.step_limit <= agent.n_calls
            status = "out_of_steps" if is_out_of_steps else "out_of_budget"
    patch, detail = info.get("submission", ""), info["exit_status"]
    if task.for_reviewers and status == "submitted" and not patch.strip():
        said = [text_of(each) for each in agent.messages if each.get("role") == "assistant"]
        detail = next(filter(None, reversed(said)), detail)  # the answer to a question
    return Outcome(status, patch, detail)


def _settings(model: ModelInfo, root: str, options: MiniOptions) -> Settings:
    """Return the package's own SWE-bench settings, with the experiment's limits.

    The prompts name `/testbed`. On the host, they name the repository's actual location instead.
    """
    name = "swebench.yaml" if model.native_tools else "swebench_backticks.yaml"
    settings: Settings = _replace_root(_package_settings(name), root)
    if options.step_limit is not None:
        settings["agent"]["step_limit"] = options.step_limit
    if options.cost_limit_usd is not None:
        settings["agent"]["cost_limit"] = options.cost_limit_usd
    if options.command_timeout_s is not None:
        settings["environment"]["timeout"] = options.command_timeout_s
    return settings


@functools.cache
def _package_settings(name: str) -> Settings:
    """Return the package's settings of a name. Parsing them takes 5 ms."""
    text = (Path(builtin_config_dir) / "benchmarks" / name).read_text()
    settings: Settings = yaml.safe_load(text)
    return settings


def _replace_root(value: Any, root: str) -> Any:
    """Return a copy of settings with another folder in place of `/testbed`."""
    if isinstance(value, dict):
        return {name: _replace_root(item, root) for name, item in value.items()}
    if isinstance(value, list):
        return [_replace_root(item, root) for item in value]
    return value.replace("/testbed", root) if isinstance(value, str) else value


class _LoopBridge:
    """Lets the agent's thread wait for the session's event loop, until it is closed."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._waiting: Future[Any] | None = None
        self._closed = False

    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        self._waiting = future
        if self._closed:
            future.cancel()
        return future.result()

    def close(self) -> None:
        """Cancel the coroutine that the thread waits for, and all later ones."""
        self._closed = True
        if self._waiting is not None:
            self._waiting.cancel()


class _SessionPart:
    """The methods that the package's protocols of a model and an environment share."""

    def __init__(self, session: Session, bridge: _LoopBridge, settings: Settings) -> None:
        self.config = settings
        self._session = session
        self._bridge = bridge

    def get_template_vars(self, **kwargs: Any) -> Settings:
        return self.config

    def serialize(self) -> Settings:
        return {}


class _SessionModel(_SessionPart):
    """mini-swe-agent's `Model` protocol over a session."""

    @property
    def _info(self) -> ModelInfo:
        return self._session.model().info

    def query(self, messages: list[Settings], **kwargs: Any) -> Settings:
        request = [_drop_extra(message) for message in messages]
        tools = [BASH_TOOL] if self._info.native_tools else []
        reply = self._bridge.wait(self._session.call(ModelRequest(request, tools)))
        # The agent's own cost limit needs a number. The records keep an unknown cost unknown.
        cost = {"cost": reply.usage.cost_usd or 0.0}
        try:
            actions = self._actions(reply)
        except FormatError as error:
            error.messages[0]["extra"].update(cost)
            raise
        return {**reply.message, "extra": {"actions": actions, **cost}}

    def _actions(self, reply: ModelReply) -> list[Settings]:
        shared = {
            "format_error_template": self.config["format_error_template"],
            "template_kwargs": {"finish_reason": reply.finish_reason},
        }
        if not self._info.native_tools:
            action_regex = self._info.action_regex or MINI_ACTION
            text = text_of(reply.message)
            return list(parse_regex_actions(text, action_regex=action_regex, **shared))
        calls = [
            SimpleNamespace(
                id=call.entry.get("id"),
                function=SimpleNamespace(name=call.name, arguments=call.arguments),
            )
            for call in list_requested_calls(reply.message)
        ]
        return list(parse_toolcall_actions(calls, **shared))

    def format_message(self, **kwargs: Any) -> Settings:
        return kwargs

    def format_observation_messages(
        self, message: Settings, outputs: list[Settings], template_vars: Settings | None = None
    ) -> list[Settings]:
        shared = {
            "outputs": outputs,
            "observation_template": self.config["observation_template"],
            "template_vars": template_vars,
        }
        if self._info.native_tools:
            actions = message["extra"]["actions"]
            messages = format_toolcall_observation_messages(actions=actions, **shared)
        else:
            messages = format_observation_messages(**shared)
        return [_drop_extra(reply) for reply in messages]  # the raw outputs can be large


def _drop_extra(message: Settings) -> Settings:
    """Return the part of a message that goes to the model."""
    return {name: value for name, value in message.items() if name != "extra"}


class _SessionEnvironment(_SessionPart):
    """mini-swe-agent's `Environment` protocol over a session."""

    _check_finished = DockerEnvironment._check_finished

    def execute(self, action: Settings, cwd: str = "") -> Settings:
        command, timeout = action["command"], self.config["timeout"]
        if reason := _find_problem(command):
            return _describe_failure("", reason)
        try:
            result = self._bridge.wait(self._session.run(command, timeout_s=timeout))
        except Undone as error:
            return {"output": str(error), "returncode": 1, "exception_info": ""}
        if result.timed_out:
            problem = str(subprocess.TimeoutExpired(command, timeout))
            output = _describe_failure(result.output, problem)
        else:
            code = result.exit_code
            output = {"output": result.output, "returncode": code, "exception_info": ""}
        self._check_finished(output)  # type: ignore[misc]
        return output


def _find_problem(command: Any) -> str:
    """Return the reason why `subprocess`, which the package uses, refuses a command, or ''.

    The package's parser accepts a command of any type.
    """
    try:
        encoded = os.fsencode(command)
    except (TypeError, UnicodeError) as error:
        return str(error)
    return "embedded null byte" if b"\0" in encoded else ""


def _describe_failure(output: str, error: str) -> Settings:
    """Return an error of `subprocess` in the package's form."""
    return {
        "output": output,
        "returncode": -1,
        "exception_info": f"An error occurred while executing the command: {error}",
    }
