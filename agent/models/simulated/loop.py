"""The agent on the loop: it looks, changes, tests and answers, by the tools that it is offered.

With programs, it looks in one program and changes and tests in another. With subagents, these do
the looking. With a notebook, it runs an experiment before and after the change. The change does not
depend on that, because the skill is the same.
"""

import re

from agent.models.simulated import implementer
from agent.models.simulated.conversation import Action, Reply, RoleRequest, answer
from agent.models.simulated.reference import Reference, item, revert_command
from agent.testfiles import BY_CONVENTION

ROLE = "loop"
"""The role of the first agent. Subagents have the names of their kinds."""

_FACTS = {"task", "root", "network", "command_timeout_s", "test_timeout_s"}
_FACTS_OF_A_PLAN = {"plan", "approved_with"}
"""The facts of agents on the loop, and of an approved plan. No other role has these."""

_PLANNING = "plan"
"""The scope in which an agent plans."""

_FILE_NAME = re.compile(r"[\w./-]+\.(?:py|go|[cm]?js|ts)\b")
_READER = re.compile(r"^- (\S+): reads only", re.MULTILINE)
"""A kind of subagent that only reads, as the prompt names it."""

_MOST_LOOKERS = 3
_MOST_SUBTASKS = 6

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


def is_agent(request: RoleRequest) -> bool:
    """Return True if the request is from an agent on the loop, or one of its subagents."""
    return request.facts.keys() - _FACTS_OF_A_PLAN == _FACTS


def next_reply(request: RoleRequest) -> Reply:
    """Return the next reply of the agent or of a subagent."""
    reads = [[action] for action in implementer.reads(request.reference.files)[:1]]
    if request.role != ROLE:
        return request.next_of([*reads, [_report("The work is done.")]])
    if request.scope == _PLANNING:
        names = [file.name for file in request.reference.files]
        plan = answer(
            "I know what to do.",
            cause=f"The cause is in {names[0] if names else 'no file'}.",
            steps=[f"Change {name}." for name in names] or ["Change nothing."],
            check="The tests that the task implies pass.",
        )
        return request.next_of([*reads, [plan]])
    looks = _looks(request)
    paths = [file.old_path for file in request.reference.files if file.old_path]
    if "cell_run" in request.tools and paths:
        code = f"lines = open({paths[0]!r}).read().splitlines()\nlen(lines)"
        looks.append([Action("I note what is there now.", "cell_run", {"code": code})])
    tests = find_related_tests(request.reference, request.results[: len(looks)])
    return request.next_of([*looks, *_work(request, tests), [_report("The work is done.")]])


def _looks(request: RoleRequest) -> list[Reply]:
    """Return the replies that look at the repository."""
    reads = implementer.reads(request.reference.files)
    paths = [action.arguments["path"] for action in reads]
    more = request.spec.exploration
    has_shell, list_tests = "run_command" in request.tools, request.reference.list_tests
    if "run_ptc" in request.tools:
        listing = f"run_command(command={list_tests!r})" if has_shell else ""
        code = _LOOKING.format(listing=listing, paths=paths * (1 + more))
        return [[Action("I look at all of it at once.", "run_ptc", {"code": code})]]
    looks: list[Reply] = []
    if has_shell:
        looks = [[Action("Where are the tests?", "run_command", {"command": list_tests})]]
    if "spawn" in request.tools and (kind := _READER.search(request.instructions)):
        subagents = [
            Action(
                "Somebody else can read this.",
                "spawn",
                {"agent": kind[1], "task": f"Read {path}, and say what has to change there."},
            )
            for path in paths[: _MOST_LOOKERS if request.native else 1]
        ]
        return [*looks, subagents] if subagents else looks
    return [*looks, *request.in_replies([*reads, *(reads * more)[:more]], ROLE)]


def find_related_tests(reference: Reference, results: tuple[str, ...]) -> list[str]:
    """Return the tests of the files to change, among the listed ones."""
    lines = "\n".join(results).replace("\\n", "\n")  # the value of a program is JSON
    paths = dict.fromkeys(_FILE_NAME.findall(lines))
    return reference.find_related([path for path in paths if BY_CONVENTION.collects(path)])


def _work(request: RoleRequest, tests: list[str]) -> list[Reply]:
    """Return the replies that change the code and run its tests."""
    patch = request.change(request.reference.files).patch
    runs = tests if "run_tests" in request.tools else []
    if "run_ptc" in request.tools:
        testing = f"(await run_tests(paths={runs!r}))['failed']" if runs else ""
        code = _CHANGING.format(patch=patch, testing=testing)
        return [[Action("I change it and run its tests.", "run_ptc", {"code": code})]]
    actions = [Action("I know what to change.", "apply_patch", {"patch": patch})]
    if "cell_replay" in request.tools:
        actions.append(Action("Does my experiment see the change?", "cell_replay", {}))
    return [[action] for action in [*actions, *implementer.run(runs)]]


def write_stage(request: RoleRequest) -> list[Action]:
    """Return the script of a stage."""
    reference = request.reference
    match request.role:
        case "explore":
            names = [file.name for file in reference.files]
            reads, more = implementer.reads(reference.files), request.spec.exploration
            findings = answer(
                "I know where this happens.",
                summary=f"What the task describes comes from {', '.join(names)}.",
                files=names,
                tests=[],
            )
            return [*reads, *(reads * more)[:more], findings]
        case "plan":
            parts = reference.parts
            rest = [file for part in parts[_MOST_SUBTASKS - 1 :] for file in part]
            titles = [item(files) for files in [*parts[: _MOST_SUBTASKS - 1], rest] if files]
            subtasks = [
                {"title": title, "instructions": f"{title} so that it does what the task says."}
                for title in titles
            ]
            return [answer("I know in which order.", subtasks=subtasks)]
        case "build":
            subtask = request.facts.get("subtask") or {}
            files = reference.find_named(str(subtask.get("title"))) or reference.files
            draw = f"build/{','.join(file.name for file in files)}"
            if request.draws.hits(request.spec.cheating, f"{draw}/cheating"):
                return [implementer.cheat([], request.draws, draw), _report()]
            patch = {"patch": request.change(files).patch}
            change = Action("I know what to change.", "apply_patch", patch)
            return [*implementer.reads(files), change, _report()]
        case _:  # a repair takes the whole change back, and tries all of it again
            undo = revert_command(str(request.facts.get("diff") or ""))
            takes_back = Action("That was wrong: I take it back.", "run_command", {"command": undo})
            patch = {"patch": request.change(reference.files, request.scope).patch}
            change = Action("I know what to change.", "apply_patch", patch)
            return [*([takes_back] if undo else []), change, _report()]


def _report(thought: str = "It is done.") -> Action:
    return answer(thought, summary="The code does what the task says.", status="done")
