"""The simulated model: choice of script, malformed replies, costs; the script of mini-swe-agent.

Each reply is a function of the conversation and of seeds. Concurrency and the order of calls
therefore change nothing, and an attempt can be repeated exactly.
"""

import base64
import functools
import json
import shlex

from agent.errors import InvalidSpec
from agent.models import patches
from agent.models.chat import bash_call, tokens
from agent.models.patches import parse
from agent.models.protocol import Message, ModelInfo, ModelReply, ModelRequest, Usage
from agent.models.simulated import conversation, roles
from agent.models.simulated.implementer import Turn, exploration
from agent.models.simulated.reference import Draws, Reference, draw_change, revert_command
from agent.models.spec import SimulatedSpec
from agent.types import Task

# US dollars per token, as charged for a capable hosted model in 2025.
_INPUT_USD, _CACHE_READ_USD, _CACHE_WRITE_USD, _OUTPUT_USD = 3e-6, 0.3e-6, 3.75e-6, 15e-6

# Providers do not cache a shorter prompt.
_SHORTEST_CACHED_TOKENS = 1024

MiniReply = list[Turn]
"""The calls of one reply, at least one."""


class SimulatedModel:
    """Knows the reference patch, and answers mini-swe-agent and every role of the durable arm."""

    def __init__(self, spec: SimulatedSpec, task: Task, seed: int) -> None:
        """Simulate one attempt, whose own seed is `seed`.

        Raises:
            InvalidSpec: the task has no reference patch.
        """
        if not task.reference_patch.strip():
            raise InvalidSpec(f"{task.id}: a simulated model needs a task with a reference patch")
        self.info = ModelInfo(f"simulated/skill-{spec.skill:g}", "simulated")
        self._spec = spec
        self._task = task
        self._draws = Draws(f"{spec.seed}/{seed}/{task.id}")
        self._mini_scripts: dict[tuple[str, bool], list[MiniReply]] = {}
        self.right = self._draws.hits(spec.skill, "skill")
        """True if a task done in one go, as by mini-swe-agent, results in the reference patch."""

    def ceiling_usd(self, request: ModelRequest) -> float:
        """Return the cost of the answer, which is known in advance."""
        return self._answer(request).usage.cost_usd or 0.0

    async def complete(self, request: ModelRequest) -> ModelReply:
        """Answer one request.

        Raises:
            ModelError: the request has an unknown role, or no facts.
        """
        return self._answer(request)

    def _answer(self, request: ModelRequest) -> ModelReply:
        match request.role:
            case "":
                message = self._answer_mini(request)
            case "agent":
                message = self._answer_program(request)
            case _:
                message = self._answer_role(request)
        return ModelReply(
            message=message,
            usage=_usage(request, message),
            cost_source="simulated",
            model=self.info.name,
            finish_reason="tool_calls" if "tool_calls" in message else "stop",
        )

    def _answer_mini(self, request: ModelRequest) -> Message:
        turn = sum(message["role"] == "assistant" for message in request.messages)
        # A reply without an action need not stay in the conversation, but its error message does.
        # The number of messages therefore distinguishes such a turn from its repetition.
        draw = f"{request.scope}malformed/{turn}/{len(request.messages)}"
        native = bool(request.tools)
        script = self._mini_script(request.scope, native)
        reply = script[min(turn, len(script) - 1)]
        if self._draws.hits(self._spec.malformed, draw) or self._draws.hits(
            self._spec.prose, f"{draw}/prose"
        ):
            return {"role": "assistant", "content": f"{reply[0][0]} Let me think again."}
        return make_reply(reply, turn, native=native)

    def _answer_program(self, request: ModelRequest) -> Message:
        """Answer a program of any kind. It ends with a reply without a call."""
        if not request.tools and patches.are_wanted(request.messages):
            reference = self._reference
            patch = draw_change(reference, reference.files, self._draws, self._spec).patch
            return {"role": "assistant", "content": patches.reply(patch, request.messages)}
        if not request.tools:
            return {"role": "assistant", "content": "Repair the repository"}
        script = self._mini_script("", native=True)[: -len(SUBMISSION)]
        turn = sum(message["role"] == "assistant" for message in request.messages)
        if turn < len(script):
            return make_reply(script[turn], turn, native=True)
        if END in json.dumps(request.messages):
            return bash_call(f"echo {END}", call_id=f"call_{turn}", content="Done.")
        return {"role": "assistant", "content": "The repository is repaired."}

    def _answer_role(self, request: ModelRequest) -> Message:
        role_request = conversation.read(request, self._reference, self._draws, self._spec)
        actions = roles.next_reply(role_request)
        draw = f"malformed/{request.role}/{request.scope}/{request.number}"
        if self._draws.hits(self._spec.malformed, draw):
            if self._draws.hits(1 / 2, f"{draw}/broken"):
                return conversation.reply(role_request, actions[:1], is_broken=True)
            return conversation.reply_without_call(actions[0])
        if self._draws.hits(self._spec.prose, f"{draw}/prose"):
            return conversation.reply_without_call(actions[0])
        return conversation.reply(role_request, actions)

    def _mini_script(self, scope: str, native: bool) -> list[MiniReply]:
        if (scope, native) not in self._mini_scripts:
            self._mini_scripts[scope, native] = write_script(
                self._reference, self._draws, self._spec, scope, native=native
            )
        return self._mini_scripts[scope, native]

    @functools.cached_property
    def _reference(self) -> Reference:
        return Reference(self._task)


def _usage(request: ModelRequest, message: Message) -> Usage:
    """Return tokens as billed by a provider with a prompt cache.

    The previous request is read from the cache: the tools, which precede all messages, and the
    messages before the last one of the assistant. The rest is written to it.
    """
    messages = request.messages
    senders = [sent["role"] for sent in messages]
    before = len(senders) - 1 - senders[::-1].index("assistant") if "assistant" in senders else 0
    tools = tokens([{"content": str(request.tools)}])
    input_tokens, output = tools + tokens(messages), tokens([message])
    prefix = tools + tokens(messages[:before]) if before else 0
    read = prefix if prefix >= _SHORTEST_CACHED_TOKENS else 0
    written = input_tokens - read if input_tokens >= _SHORTEST_CACHED_TOKENS else 0
    plain = input_tokens - read - written
    return Usage(
        input_tokens=input_tokens,
        cache_read_tokens=read,
        cache_write_tokens=written,
        output_tokens=output,
        cost_usd=plain * _INPUT_USD
        + read * _CACHE_READ_USD
        + written * _CACHE_WRITE_USD
        + output * _OUTPUT_USD,
    )


END = "COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"
"""The output that ends a run of the package."""

SUBMISSION = ("write the patch file", "check it", "submit it")
"""The last replies of a script, which only mini-swe-agent's prompt for SWE-bench asks for."""

_TESTS = "python -m pytest -q -p no:cacheprovider 2>&1 | tail -n 30"
_MOST_REPAIRS = 2
_FIRST_TRY = "try-1"
"""The scope of the first run in an attempt of `mini_retry`."""


def write_script(
    reference: Reference, draws: Draws, spec: SimulatedSpec, scope: str, *, native: bool
) -> list[MiniReply]:
    """Return the whole script of one run of the agent.

    Each `scope` is another try at the task.
    """
    retry = "" if scope == _FIRST_TRY else scope
    draw = f"{retry}/" if retry else ""
    tries = [draw_change(reference, reference.files, draws, spec, retry)]
    runs_tests = draws.hits(spec.mini_tests, f"{draw}tests")
    while runs_tests and not tries[-1].right and len(tries) <= _MOST_REPAIRS:
        if not draws.hits(spec.mini_notices, f"{draw}notices/{len(tries)}"):
            break
        place = f"{draw}repair-{len(tries)}"
        tries.append(draw_change(reference, reference.files, draws, spec, place))
    files = parse(tries[0].patch)
    replies: list[MiniReply] = []
    chance = spec.parallel_calls if native else 0.0
    looks = exploration(files, draws.rng(f"{draw}exploration"), spec.exploration)
    for number, turn in enumerate(looks):
        if replies and draws.hits(chance, f"{draw}parallel/{number}"):
            replies[-1] = [*replies[-1], turn]
        else:
            replies.append([turn])
    for number, change in enumerate(tries):
        if number:
            undo = revert_command(tries[number - 1].patch)
            replies.append([("That was wrong: I take it back.", undo)])
        # Base64 carries carriage returns, binary files and any encoding through the shell.
        patch = base64.encodebytes(change.patch.encode("utf-8", "surrogateescape")).decode()
        apply = f"base64 -d <<'PATCH' | git apply --whitespace=nowarn\n{patch}PATCH"
        replies.append([("I know what to change.", apply)])
        if runs_tests:
            replies.append([("I run the tests.", _TESTS)])
    return [
        *replies,
        [("Now the patch file.", _patch_file_command(tries[-1].patch))],
        [("I check the patch.", "cat patch.txt")],
        [("The patch is what I meant.", f"echo {END} && cat patch.txt")],
    ]


def make_reply(turns: MiniReply, number: int, *, native: bool) -> Message:
    """Return reply `number` as an assistant message of either protocol."""
    thought, command = turns[0]
    if not native:
        block = f"```mswea_bash_command\n{command}\n```"
        return {"role": "assistant", "content": f"THOUGHT: {thought}\n\n{block}"}
    messages = [
        bash_call(text, call_id=f"call_{number}{f'_{n}' * (n > 0)}", content=thought)
        for n, (_, text) in enumerate(turns)
    ]
    calls = [call for message in messages for call in message["tool_calls"]]
    return {**messages[0], "tool_calls": calls}


def _patch_file_command(patch: str) -> str:
    """Return the command that writes the diff of a patch's files to `patch.txt`."""
    files = parse(patch)
    paths = sorted({path for file in files for path in file.paths})
    new = [file.new_path for file in files if file.new_path and file.new_path != file.old_path]
    binary = " --binary" if any(file.is_binary for file in files) else ""
    diff = f"git diff{binary} -- {shlex.join(paths)} > patch.txt"
    return f"git add -N -- {shlex.join(new)} && {diff}" if new else diff
