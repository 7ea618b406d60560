"""A stand-in for a model that needs no key: it knows the answer, and its skill is stated.

Each reply is a function of the conversation and of seeds, so neither concurrency nor the
order of calls changes anything, and an attempt can be repeated exactly.
"""

import base64
import hashlib
import random
import shlex

from agent.errors import InvalidSpec
from agent.models.chat import bash_call, tokens
from agent.models.damage import damage
from agent.models.patches import FilePatch, parse
from agent.models.protocol import Message, ModelInfo, ModelReply, ModelRequest, Usage
from agent.models.spec import SimulatedSpec
from agent.types import Task

# US dollars per token: what a capable hosted model cost in 2025.
_INPUT_USD, _CACHE_READ_USD, _CACHE_WRITE_USD, _OUTPUT_USD = 3e-6, 0.3e-6, 3.75e-6, 15e-6

# Providers do not cache a prompt that is shorter.
_SHORTEST_CACHED_TOKENS = 1024

_SUBMIT = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT && cat patch.txt"


class SimulatedModel:
    """Explores a little, applies the right patch or a damaged one, and submits it."""

    def __init__(self, spec: SimulatedSpec, task: Task, seed: int) -> None:
        """`seed` is the attempt's own.

        Raises:
            InvalidSpec: the task has no reference patch to know.
        """
        if not task.reference_patch.strip():
            raise InvalidSpec(f"{task.id}: a simulated model needs a task with a reference patch")
        self.info = ModelInfo(f"simulated/skill-{spec.skill:g}", "simulated")
        self._spec = spec
        self._identity = f"{spec.seed}/{seed}/{task.id}"
        self.right = self._rng("skill").random() < spec.skill
        """Whether this attempt submits the reference patch itself."""
        patch = task.reference_patch
        if not self.right:
            patch = damage(patch, self._rng("damage"))
        self._turns = _turns(patch, self._rng("exploration"))

    def ceiling_usd(self, request: ModelRequest) -> float:
        """What the answer will cost: it is known before it is given."""
        return self._answer(request).usage.cost_usd or 0.0

    async def complete(self, request: ModelRequest) -> ModelReply:
        """Answer one request; never fails."""
        return self._answer(request)

    def _answer(self, request: ModelRequest) -> ModelReply:
        turn = sum(message["role"] == "assistant" for message in request.messages)
        thought, command = self._turns[min(turn, len(self._turns) - 1)]
        # A reply without an action need not stay in the conversation, but the complaint about
        # it does: the number of messages tells such a turn from its repetition.
        draw = self._rng(f"malformed/{turn}/{len(request.messages)}").random()
        if draw < self._spec.malformed:
            message: Message = {"role": "assistant", "content": f"{thought} Let me think again."}
        else:
            message = _action(thought, command, turn, native=bool(request.tools))
        return ModelReply(
            message=message,
            usage=_usage(request, message),
            cost_source="simulated",
            model=self.info.name,
            finish_reason="tool_calls" if "tool_calls" in message else "stop",
        )

    def _rng(self, purpose: str) -> random.Random:
        digest = hashlib.sha256(f"{self._identity}/{purpose}".encode()).digest()
        return random.Random(digest)  # noqa: S311  a seeded draw, not a secret


Turn = tuple[str, str]
"""A thought and the command that follows from it."""


def _turns(patch: str, rng: random.Random) -> list[Turn]:
    files = parse(patch)
    return [
        *_exploration(files, rng),
        ("I know what to change.", _apply(patch)),
        ("Now the patch file.", _write_patch_file(files)),
        ("I check the patch.", "cat patch.txt"),
        ("The patch is what I meant.", _SUBMIT),
    ]


def _exploration(files: list[FilePatch], rng: random.Random) -> list[Turn]:
    general = [
        ("I look around.", "ls -la"),
        ("Where does the history stand?", "git log -1 --format=%s"),
        ("Is the tree clean?", "git status --short | head -n 20"),
        ("How big is this?", "git ls-files | wc -l"),
    ]
    closer: list[Turn] = []
    for path in (shlex.quote(file.old_path) for file in files if file.old_path):
        closer.append((f"I read {path}.", f"head -c 6000 {path}"))
        closer.append((f"What is in {path}?", f"grep -nE '^ *(def|class) ' {path} | head -n 40"))
    number = rng.randint(2, 6)
    near = rng.sample(closer, min(len(closer), number - 1))
    return [*rng.sample(general, min(len(general), number - len(near))), *near]


def _apply(patch: str) -> str:
    """Base64 carries carriage returns, binary files and any encoding through the shell."""
    encoded = base64.encodebytes(patch.encode("utf-8", "surrogateescape")).decode()
    return f"base64 -d <<'PATCH' | git apply --whitespace=nowarn\n{encoded}PATCH"


def _write_patch_file(files: list[FilePatch]) -> str:
    paths = sorted({path for file in files for path in (file.old_path, file.new_path) if path})
    new = [file.new_path for file in files if file.new_path and file.new_path != file.old_path]
    binary = " --binary" if any("GIT binary patch" in file.header for file in files) else ""
    diff = f"git diff{binary} -- {shlex.join(paths)} > patch.txt"
    return f"git add -N -- {shlex.join(new)} && {diff}" if new else diff


def _action(thought: str, command: str, turn: int, *, native: bool) -> Message:
    if native:
        return bash_call(command, call_id=f"call_{turn}", content=thought)
    block = f"```mswea_bash_command\n{command}\n```"
    return {"role": "assistant", "content": f"THOUGHT: {thought}\n\n{block}"}


def _usage(request: ModelRequest, message: Message) -> Usage:
    """Tokens as a provider with a prompt cache bills them: the request before this one, which
    ended before the last assistant message, is read, and the rest is written."""
    messages = request.messages
    roles = [sent["role"] for sent in messages]
    before = len(roles) - 1 - roles[::-1].index("assistant") if "assistant" in roles else 0
    input_tokens = tokens(messages) + tokens([{"content": str(request.tools)}])
    read, output = _cached(tokens(messages[:before])), tokens([message])
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
