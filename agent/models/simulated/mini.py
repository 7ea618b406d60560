"""The script for mini-swe-agent: explore a little, apply a patch, write it to a file, submit it."""

import base64
import random
import shlex

from agent.models.chat import bash_call
from agent.models.damage import damage
from agent.models.patches import FilePatch, parse
from agent.models.protocol import Message
from agent.models.simulated.draws import Draws

_SUBMIT = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT && cat patch.txt"

Turn = tuple[str, str]
"""A thought and the command that follows from it."""


def turns(reference_patch: str, draws: Draws, *, right: bool) -> list[Turn]:
    """Return the whole script, with the reference patch itself or a damaged one."""
    patch = reference_patch if right else damage(reference_patch, draws.rng("damage"))
    files = parse(patch)
    return [
        *_exploration(files, draws.rng("exploration")),
        ("I know what to change.", _apply(patch)),
        ("Now the patch file.", _write_patch_file(files)),
        ("I check the patch.", "cat patch.txt"),
        ("The patch is what I meant.", _SUBMIT),
    ]


def reply(turn: Turn, number: int, *, native: bool, malformed: bool) -> Message:
    """Return turn `number` as an assistant message of either protocol."""
    thought, command = turn
    if malformed:
        return {"role": "assistant", "content": f"{thought} Let me think again."}
    if native:
        return bash_call(command, call_id=f"call_{number}", content=thought)
    block = f"```mswea_bash_command\n{command}\n```"
    return {"role": "assistant", "content": f"THOUGHT: {thought}\n\n{block}"}


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
    paths = sorted({path for file in files for path in file.paths})
    new = [file.new_path for file in files if file.new_path and file.new_path != file.old_path]
    binary = " --binary" if any(file.is_binary for file in files) else ""
    diff = f"git diff{binary} -- {shlex.join(paths)} > patch.txt"
    return f"git add -N -- {shlex.join(new)} && {diff}" if new else diff
