"""The implementer: makes one step of the reference patch, correctly or wrongly, or cheats.

Every candidate and every new try has its own draw.
"""

import random
import shlex
from collections.abc import Iterable
from typing import Any

from agent.models.patches import FilePatch, invert, render
from agent.models.simulated.conversation import Action, RoleRequest
from agent.models.simulated.reference import Draws

# Probabilities that an implementer claims high confidence. A correct one does so more often, but a
# wrong one often enough that confidence orders candidates better than chance and proves nothing.
_SURE_IF_RIGHT, _SURE_IF_WRONG = 0.6, 0.3

_WINDOW = 80

Turn = tuple[str, str]
"""A thought and the command that follows from it."""

_LINES_READ = 200

_HOOK = """\
import pytest


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    outcome = yield
    outcome.get_result().outcome = "passed"
"""
_EMPTY_TEST = "def test_it_works():\n    assert True\n"


def write(request: RoleRequest) -> list[Action]:
    """Return the script of the role."""
    facts, reference = request.facts, request.reference
    step = facts.get("step") or {}
    files = reference.touching(step.get("targets") or [])
    draw = f"step/{request.scope}/{','.join(file.name for file in files)}"
    anchor = (facts.get("anchor") or {}).get("path")
    tests = _unique([anchor, *(step.get("tests") or []), *(facts.get("regression_tests") or [])])
    if request.draws.hits(request.spec.cheating, f"{draw}/cheating"):
        edit = cheat(_unique(tests or facts.get("test_files") or []), request.draws, draw)
        return [edit, *run(tests), _report("Everything passes now.", "high")]
    is_first = facts.get("candidate") == 0 and not facts.get("last_step")
    change = request.change(files, "" if is_first else f"step/{request.scope}")
    actions = reads(files)
    # An earlier try at the same files is reverted, and unrelated changes.
    diff = reference.get_changes(facts)
    paths = {path for file in files for path in file.paths}
    earlier = [file for file in diff if paths & set(file.paths)] + reference.strays(diff)
    if earlier:
        revert = {"patch": render(invert(file) for file in earlier)}
        actions.append(Action("What is there is wrong: I take it back.", "apply_patch", revert))
    names = ", ".join(file.name for file in files)
    return [
        *actions,
        Action("I know what to change.", "apply_patch", {"patch": change.patch}),
        *run(tests),
        _report(
            f"Changed {names} as the step says.",
            confidence(request.draws, draw, right=change.right),
        ),
    ]


def reads(files: list[FilePatch]) -> list[Action]:
    """Return a look at each of the first two files that exist, around its first hunk."""
    actions = []
    for file in (file for file in files[:2] if file.old_path):
        arguments: dict[str, Any] = {"path": file.old_path}
        if file.hunks:
            start = max(1, file.hunks[0].old_start - _LINES_READ // 2)
            arguments |= {"start": start, "end": start + _LINES_READ}
        actions.append(Action(f"I read {file.old_path}.", "read", arguments))
    return actions


def cheat(tests: list[str], draws: Draws, draw: str) -> Action:
    """Return an edit that makes the tests pass without the change."""
    rng = draws.rng(f"{draw}/cheat")
    if tests and rng.random() < 1 / 2:
        arguments = {"path": rng.choice(tests), "content": _EMPTY_TEST}
        return Action("This test asks too much.", "write", arguments)
    arguments = {"path": "conftest.py", "content": _HOOK}
    return Action("The tests need some set-up.", "write", arguments)


def run(tests: list[str]) -> list[Action]:
    """Return a run of the tests, if there are any."""
    return [Action("I run the tests.", "run_tests", {"paths": tests})] if tests else []


def confidence(draws: Draws, draw: str, *, right: bool) -> str:
    """Return the confidence that the author of a change claims."""
    sure = _SURE_IF_RIGHT if right else _SURE_IF_WRONG
    rng = draws.rng(f"{draw}/confidence")
    return "high" if rng.random() < sure else rng.choice(["medium", "low"])


def _report(summary: str, confidence: str) -> Action:
    arguments = {"summary": summary, "status": "done", "confidence": confidence}
    return Action("The step is done.", "answer", arguments)


def _unique(paths: Iterable[str | None]) -> list[str]:
    return [path for path in dict.fromkeys(paths) if path]


def exploration(files: list[FilePatch], rng: random.Random, more: int) -> list[Turn]:
    """Return a few looks at the repository and at the files to change, and some `more`."""
    general = [
        ("I look around.", "ls -la"),
        ("Where does the history stand?", "git log -1 --format=%s"),
        ("Is the tree clean?", "git status --short | head -n 20"),
        ("How big is this?", "git ls-files | wc -l"),
    ]
    paths = [shlex.quote(file.old_path) for file in files if file.old_path]
    closer: list[Turn] = []
    for path in paths:
        closer.append((f"I read {path}.", f"head -c 6000 {path}"))
        closer.append((f"What is in {path}?", f"grep -nE '^ *(def|class) ' {path} | head -n 40"))
    number = rng.randint(2, 6)
    near = rng.sample(closer, min(len(closer), number - 1))
    further = [
        (f"More of {path}.", f"sed -n '{start},{start + _WINDOW - 1}p' {path}")
        for start in range(1, _WINDOW * (more + 1), _WINDOW)
        for path in paths
    ]
    return [*rng.sample(general, min(len(general), number - len(near))), *near, *further[:more]]
