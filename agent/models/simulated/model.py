"""The simulated model: choice of script, malformed replies, and costs.

Each reply is a function of the conversation and of seeds. Concurrency and the order of calls
therefore change nothing, and an attempt can be repeated exactly.
"""

import functools
import json

from agent.errors import InvalidSpec
from agent.models import patches
from agent.models.chat import bash_call, tokens
from agent.models.protocol import Message, ModelInfo, ModelReply, ModelRequest, Usage
from agent.models.simulated import conversation, mini, roles
from agent.models.simulated.reference import Draws, Reference
from agent.models.spec import SimulatedSpec
from agent.types import Task

# US dollars per token, as charged for a capable hosted model in 2025.
_INPUT_USD, _CACHE_READ_USD, _CACHE_WRITE_USD, _OUTPUT_USD = 3e-6, 0.3e-6, 3.75e-6, 15e-6

# Providers do not cache a shorter prompt.
_SHORTEST_CACHED_TOKENS = 1024


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
        self._mini_scripts: dict[tuple[str, bool], list[mini.Reply]] = {}
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
        if request.role in ("", "agent"):
            message = self._as_mini(request) if not request.role else self._as_program(request)
        else:
            message = self._in_a_role(request)
        return ModelReply(
            message=message,
            usage=_usage(request, message),
            cost_source="simulated",
            model=self.info.name,
            finish_reason="tool_calls" if "tool_calls" in message else "stop",
        )

    def _as_mini(self, request: ModelRequest) -> Message:
        turn = sum(message["role"] == "assistant" for message in request.messages)
        # A reply without an action need not stay in the conversation, but its error message does.
        # The number of messages therefore distinguishes such a turn from its repetition.
        draw = f"{request.scope}malformed/{turn}/{len(request.messages)}"
        malformed = self._draws.hits(self._spec.malformed, draw) or self._draws.hits(
            self._spec.prose, f"{draw}/prose"
        )
        native = bool(request.tools)
        script = self._mini_script(request.scope, native)
        chosen = script[min(turn, len(script) - 1)]
        return mini.reply(chosen, turn, native=native, malformed=malformed)

    def _as_program(self, request: ModelRequest) -> Message:
        """Answer a program of any kind. It ends with a reply without a call."""
        if not request.tools and patches.are_wanted(request.messages):
            patch = mini.first_patch(self._reference, self._draws, self._spec)
            return {"role": "assistant", "content": patches.reply(patch, request.messages)}
        if not request.tools:
            return {"role": "assistant", "content": "Repair the repository"}
        script = self._mini_script("", native=True)[: -len(mini.SUBMISSION)]
        turn = sum(message["role"] == "assistant" for message in request.messages)
        if turn < len(script):
            return mini.reply(script[turn], turn, native=True, malformed=False)
        if mini.END in json.dumps(request.messages):
            return bash_call(f"echo {mini.END}", call_id=f"call_{turn}", content="Done.")
        return {"role": "assistant", "content": "The repository is repaired."}

    def _in_a_role(self, request: ModelRequest) -> Message:
        talk = conversation.read(request)
        actions = roles.next_reply(talk, self._reference, self._draws, self._spec)
        draw = f"malformed/{talk.role}/{talk.scope}/{talk.number}"
        if self._draws.hits(self._spec.malformed, draw):
            broken = self._draws.hits(1 / 2, f"{draw}/broken")
            return conversation.malformed_reply(talk, actions[0], broken=broken)
        if self._draws.hits(self._spec.prose, f"{draw}/prose"):
            return conversation.malformed_reply(talk, actions[0], broken=False)
        return conversation.reply(talk, actions)

    def _mini_script(self, scope: str, native: bool) -> list[mini.Reply]:
        if (scope, native) not in self._mini_scripts:
            self._mini_scripts[scope, native] = mini.script(
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
    read = _cached(tools + tokens(messages[:before])) if before else 0
    written = _cached(input_tokens) - read
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


def _cached(count: int) -> int:
    return count if count >= _SHORTEST_CACHED_TOKENS else 0
