"""The script for mini-swe-agent: explore, change, perhaps test, write a patch file, submit it."""

import base64
import random
import shlex
from collections.abc import Iterator

from agent.models.chat import bash_call
from agent.models.patches import FilePatch, parse
from agent.models.protocol import Message
from agent.models.simulated.reference import Draws, Reference, drawn, undoing_command
from agent.models.spec import SimulatedSpec

END = "COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"
"""The output by which the package knows that the agent has finished."""

_SUBMIT = f"echo {END} && cat patch.txt"

SUBMISSION = ("write the patch file", "check it", "submit it")
"""The last replies of a script, which only mini-swe-agent's prompt for SWE-bench asks for."""

_TESTS = "python -m pytest -q -p no:cacheprovider 2>&1 | tail -n 30"
_MOST_REPAIRS = 2
_WINDOW = 80
_FIRST_TRY = "try-1"
"""The scope of the first run in an attempt of `mini_retry`."""

Turn = tuple[str, str]
"""A thought and the command that follows from it."""

Reply = list[Turn]
"""The calls of one reply, at least one."""


def script(
    reference: Reference, draws: Draws, spec: SimulatedSpec, scope: str, *, native: bool
) -> list[Reply]:
    """Return the whole script of one run of the agent.

    Each `scope` is another try at the task.
    """
    retry = "" if scope == _FIRST_TRY else scope
    draw = f"{retry}/" if retry else ""
    tries = [drawn(reference, reference.files, draws, spec, retry)]
    tests = draws.hits(spec.mini_tests, f"{draw}tests")
    while tests and not tries[-1].right and len(tries) <= _MOST_REPAIRS:
        if not draws.hits(spec.mini_notices, f"{draw}notices/{len(tries)}"):
            break
        place = f"{draw}repair-{len(tries)}"
        tries.append(drawn(reference, reference.files, draws, spec, place))
    files = parse(tries[0].patch)
    looks = exploration(files, draws.rng(f"{draw}exploration"), spec.exploration)
    chance = spec.parallel_calls if native else 0.0
    return [
        *_together(looks, draws, chance, draw),
        *([turn] for turn in _work([each.patch for each in tries], tests=tests)),
        [("Now the patch file.", _write_patch_file(parse(tries[-1].patch)))],
        [("I check the patch.", "cat patch.txt")],
        [("The patch is what I meant.", _SUBMIT)],
    ]


def first_patch(reference: Reference, draws: Draws, spec: SimulatedSpec) -> str:
    """Return the change that the first run of the agent makes first."""
    return drawn(reference, reference.files, draws, spec, "").patch


def reply(turns: Reply, number: int, *, native: bool, malformed: bool) -> Message:
    """Return reply `number` as an assistant message of either protocol."""
    thought, command = turns[0]
    if malformed:
        return {"role": "assistant", "content": f"{thought} Let me think again."}
    if native:
        messages = [
            bash_call(each, call_id=f"call_{number}{f'_{n}' * (n > 0)}", content=thought)
            for n, (_, each) in enumerate(turns)
        ]
        calls = [call for message in messages for call in message["tool_calls"]]
        return {**messages[0], "tool_calls": calls}
    block = f"```mswea_bash_command\n{command}\n```"
    return {"role": "assistant", "content": f"THOUGHT: {thought}\n\n{block}"}


def _together(turns: list[Turn], draws: Draws, chance: float, draw: str) -> list[Reply]:
    replies: list[Reply] = []
    for number, turn in enumerate(turns):
        if replies and draws.hits(chance, f"{draw}parallel/{number}"):
            replies[-1] = [*replies[-1], turn]
        else:
            replies.append([turn])
    return replies


def _work(patches: list[str], *, tests: bool) -> Iterator[Turn]:
    """Yield the changes, each in place of the one before, and the tests of each."""
    for number, patch in enumerate(patches):
        if number:
            yield "That was wrong: I take it back.", undoing_command(patches[number - 1])
        yield "I know what to change.", _apply(patch)
        if tests:
            yield "I run the tests.", _TESTS


def exploration(files: list[FilePatch], rng: random.Random, more: int) -> list[Turn]:
    """Return a few looks at the repository and at the files to change, and some `more`."""
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
    paths = [shlex.quote(file.old_path) for file in files if file.old_path]
    further = [
        (f"More of {path}.", f"sed -n '{start},{start + _WINDOW - 1}p' {path}")
        for start in range(1, _WINDOW * (more + 1), _WINDOW)
        for path in paths
    ]
    return [*rng.sample(general, min(len(general), number - len(near))), *near, *further[:more]]


def _apply(patch: str) -> str:
    """Base64 carries carriage returns, binary files and any encoding through the shell."""
    encoded = base64.encodebytes(patch.encode("utf-8", "surrogateescape")).decode()
    return f"base64 -d <<'PATCH' | git apply --whitespace=nowarn\n{encoded}PATCH"


def _write_patch_file(files: list[FilePatch]) -> str:
    paths = sorted({path for file in files for path in file.paths})
    new = [file.new_path for file in files if file.new_path and file.new_path != file.old_path]
    binary = " --binary" if any(file.is_binary for file in files) else ""
    diff = f"git diff{binary} -- {shlex.join(paths)} > patch.txt"
    return f"git add -N -- {shlex.join(new)} && {diff}" if new else diff
