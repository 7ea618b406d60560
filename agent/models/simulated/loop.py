"""The agent on the loop: it looks, changes, tests and answers, by the tools that it is offered.

With programs, it looks in one program and changes and tests in another. With subagents, it lets
them look. With a notebook, it runs an experiment before and after the change. What it changes does
not depend on that: its skill is the same.
"""

import re

from agent.models.patches import FilePatch
from agent.models.simulated import implementer
from agent.models.simulated.conversation import Action, Reply, RoleRequest, answer
from agent.models.simulated.reference import Reference, item, undoing_command
from agent.testfiles import BY_CONVENTION

ROLE = "loop"
"""The role of the first agent. Subagents have the names of their kinds."""

_FACTS = {"task", "root", "network", "command_timeout_s", "test_timeout_s"}
_OF_A_PLAN = {"plan", "approved_with"}
"""The facts of agents on the loop, and those about an approved plan. No other role has these."""

_PLANNING = "plan"
"""The scope in which an agent plans."""

_LISTED = re.compile(r"[\w./-]+\.py")
_LIST_TESTS = "git ls-files -- '*test*.py' | head -n 200"
_MOST_LOOKERS = 3

_LOOKING = """\
import asyncio
listed = await asyncio.gather({listing})
texts = await asyncio.gather(*[read(path=path) for path in {paths!r}])
[listed, [len(text) for text in texts]]
"""

_CHANGING = """\
await apply_patch(patch={patch!r})
{testing}
"""


def is_agent(asked: RoleRequest) -> bool:
    """Return True if an agent on the loop, or one of its subagents, asks."""
    return asked.facts.keys() - _OF_A_PLAN == _FACTS


def next_reply(asked: RoleRequest) -> Reply:
    """Return the next reply of the agent or of a subagent."""
    if asked.role != ROLE:
        replies = [*_reads(asked.reference), [_report("The work is done.")]]
    elif asked.scope == _PLANNING:
        replies = [*_reads(asked.reference), _plan(asked.reference)]
    else:
        looks = [*_looks(asked), *_cell(asked)]
        tests = _tests(asked.reference, asked.results[: len(looks)])
        replies = [*looks, *_work(asked, tests), [_report("The work is done.")]]
    return asked.next_of(replies)


def _looks(asked: RoleRequest) -> list[Reply]:
    """Return the replies that look at the repository."""
    reads = implementer.reads(asked.reference.files)
    paths = [action.arguments["path"] for action in reads]
    has_shell = "run_command" in asked.tools
    if "run_ptc" in asked.tools:
        listing = f"run_command(command={_LIST_TESTS!r})" if has_shell else ""
        code = _LOOKING.format(listing=listing, paths=paths * (1 + asked.spec.exploration))
        return [[Action("I look at all of it at once.", "run_ptc", {"code": code})]]
    if "spawn" in asked.tools and (kind := _reader(asked)):
        spawned = [_spawn(kind, path) for path in paths[:_MOST_LOOKERS]]
        reads = spawned if asked.native else spawned[:1]
        return [*_listing(has_shell=has_shell), *([reads] if reads else [])]
    looks = [*reads, *(reads * asked.spec.exploration)[: asked.spec.exploration]]
    return [*_listing(has_shell=has_shell), *asked.in_replies(looks, ROLE)]


def _cell(asked: RoleRequest) -> list[Reply]:
    """Return an experiment on a file that will be changed, for an agent with a notebook."""
    paths = [file.old_path for file in asked.reference.files if file.old_path]
    if "cell_run" not in asked.tools or not paths:
        return []
    code = f"lines = open({paths[0]!r}).read().splitlines()\nlen(lines)"
    return [[Action("I note what is there now.", "cell_run", {"code": code})]]


def _replay(asked: RoleRequest) -> list[Reply]:
    if "cell_replay" not in asked.tools:
        return []
    return [[Action("Does my experiment see the change?", "cell_replay", {})]]


def _listing(*, has_shell: bool) -> list[Reply]:
    asked = {"command": _LIST_TESTS}
    return [[Action("Where are the tests?", "run_command", asked)]] if has_shell else []


def _reader(asked: RoleRequest) -> str:
    """Return a kind of subagent that only reads, as the prompt names it, or ''."""
    found = re.search(r"^- (\S+): reads only", asked.told, re.MULTILINE)
    return found[1] if found else ""


def _spawn(kind: str, path: str) -> Action:
    task = f"Read {path}, and say what has to change there."
    return Action("Somebody else can read this.", "spawn", {"agent": kind, "task": task})


def _tests(reference: Reference, results: tuple[str, ...]) -> list[str]:
    """Return the tests of the files to change, among those that were listed."""
    lines = "\n".join(results).replace("\\n", "\n")  # the value of a program is JSON
    listed = _LISTED.findall(lines)
    return reference.find_related(
        [path for path in dict.fromkeys(listed) if BY_CONVENTION.collects(path)]
    )


def _work(asked: RoleRequest, tests: list[str]) -> list[Reply]:
    """Return the replies that change the code and run its tests."""
    patch = asked.change(asked.reference.files).patch
    runs = tests if "run_tests" in asked.tools else []
    if "run_ptc" in asked.tools:
        testing = f"(await run_tests(paths={runs!r}))['failed']" if runs else ""
        code = _CHANGING.format(patch=patch, testing=testing)
        return [[Action("I change it and run its tests.", "run_ptc", {"code": code})]]
    change = Action("I know what to change.", "apply_patch", {"patch": patch})
    tested = [[action] for action in implementer.run(runs)]
    return [[change], *_replay(asked), *tested]


def _reads(reference: Reference) -> list[Reply]:
    return [[action] for action in implementer.reads(reference.files)[:1]]


def _plan(reference: Reference) -> Reply:
    names = [file.name for file in reference.files]
    plan = answer(
        "I know what to do.",
        cause=f"The cause is in {names[0] if names else 'no file'}.",
        steps=[f"Change {name}." for name in names] or ["Change nothing."],
        check="The tests that the task implies pass.",
    )
    return [plan]


_MOST_SUBTASKS = 6


def is_stage(asked: RoleRequest) -> bool:
    """Return True if a stage asks. No other role has a fact of this name."""
    return asked.facts.get("stage") == asked.role


def write_stage(asked: RoleRequest) -> list[Action]:
    """Return the script of a stage."""
    match asked.role:
        case "explore":
            reads, more = implementer.reads(asked.reference.files), asked.spec.exploration
            return [*reads, *(reads * more)[:more], _findings(asked.reference)]
        case "plan":
            return [_stage_plan(asked.reference)]
        case "build":
            return _build(asked)
        case _:
            return _repair(asked)


def _findings(reference: Reference) -> Action:
    names = [file.name for file in reference.files]
    return answer(
        "I know where this happens.",
        summary=f"What the task describes comes from {', '.join(names)}.",
        files=names,
        tests=[],
    )


def _stage_plan(reference: Reference) -> Action:
    subtasks = [
        {"title": item(files), "instructions": f"{item(files)} so that it does what the task says."}
        for files in _parts(reference)
    ]
    return answer("I know in which order.", subtasks=subtasks)


def _parts(reference: Reference) -> list[list[FilePatch]]:
    """Return the parts of the reference patch, the last ones as one if there are too many."""
    parts = reference.parts
    rest = [file for part in parts[_MOST_SUBTASKS - 1 :] for file in part]
    return [*parts[: _MOST_SUBTASKS - 1], *([rest] if rest else [])]


def _build(asked: RoleRequest) -> list[Action]:
    subtask = asked.facts.get("subtask") or {}
    files = asked.reference.find_named(str(subtask.get("title"))) or asked.reference.files
    names = ",".join(file.name for file in files)
    draw = f"build/{names}"
    if asked.draws.hits(asked.spec.cheating, f"{draw}/cheating"):
        return [implementer.cheat([], asked.draws, draw), _report()]
    patch = asked.change(files).patch
    return [
        *implementer.reads(files),
        Action("I know what to change.", "apply_patch", {"patch": patch}),
        _report(),
    ]


def _repair(asked: RoleRequest) -> list[Action]:
    """Take the whole change back, and try all of it again."""
    undo = undoing_command(str(asked.facts.get("diff") or ""))
    takes_back = Action("That was wrong: I take it back.", "run_command", {"command": undo})
    patch = asked.change(asked.reference.files, asked.scope).patch
    change = Action("I know what to change.", "apply_patch", {"patch": patch})
    return [*([takes_back] if undo else []), change, _report()]


def _report(thought: str = "It is done.") -> Action:
    return answer(thought, summary="The code does what the task says.", status="done")
