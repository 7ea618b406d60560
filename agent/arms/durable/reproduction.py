"""Phase 3: the task as a failing test. Whether it is one, a machine decides."""

import ast
import re
from dataclasses import replace

from agent.arms.durable.answers import AnchorClaim, Brief
from agent.arms.durable.conversation import converse, prompt_beside
from agent.arms.durable.roles import protecting, toolbox
from agent.arms.durable.state import Anchor, Reproduction, State
from agent.arms.durable.verification import run_tests
from agent.paths import is_test_support
from agent.session.session import Session
from agent.tools import Protection, TestRun
from agent.tools.rendering import render_tests
from agent.workspaces.protocol import Workspace

REPRODUCIBLE = frozenset({"bugfix", "feature", "unknown"})
"""Kinds of task that are begun with a failing test; what nobody could name may be one."""

_WRITER_ROUNDS = 16
_TESTS_FAILED = 1
# At the head of a line, as an error and not in what an assertion is about; pytest puts `E` there.
_NOT_BY_ASSERTION = re.compile(
    r"^(E +)?(\w+\.)*"
    r"(ImportError|ModuleNotFoundError|SyntaxError|IndentationError|TabError)(:|$)"
    r"|fixture '.*' not found|errors? during collection",
    re.MULTILINE,
)


async def reproduce(state: State, session: Session) -> Reproduction:
    """A brief, an anchor test that fails on the base commit, and the tests to run with it.

    Without an anchor `problem` says why, and the work tree is as it was.
    """
    brief = await _brief(state, session.scope("brief"))
    if brief is None:
        return Reproduction(problem="no brief could be had")
    found = replace(Reproduction(brief), regression_tests=state.known_tests(brief.regression_tests))
    if state.profile.reproduction == "off":
        found = replace(found, problem="the profile wants no reproduction")
    elif state.contract.kind not in REPRODUCIBLE:
        found = replace(found, problem=f"a {state.contract.kind} task is not begun with a test")
    else:
        found = await _anchored(state, found, session)
    return await _with_baseline(state, found, session.scope("baseline"))


async def _brief(state: State, session: Session) -> Brief | None:
    facts = state.as_facts("task", "contract", "repository_map", "test_files")
    prompt = prompt_beside(__file__, "reproduction_brief")
    return (await converse(session, "brief", prompt, facts, Brief, state.limits())).answer


async def _anchored(state: State, found: Reproduction, session: Session) -> Reproduction:
    """With an anchor, or with the reason why the last try was none."""
    start, problem = session.tree, ""
    for number in range(1, state.profile.anchor_tries + 1):
        writing = session.scope(f"anchor-{number}")
        claim = await _claim(state, found, problem, writing)
        if claim is None or not claim.reproduced:
            problem = claim.reason if claim else "the writer gave no valid answer"
        else:
            anchor, problem = await _checked(state, claim, start, writing)
            if anchor is not None:
                named = state.known_tests([*found.regression_tests, *claim.regression_tests])
                return replace(found, anchor=anchor, regression_tests=named)
        await writing.take(start)
    return replace(found, problem=problem)


async def _claim(
    state: State, found: Reproduction, problem: str, session: Session
) -> AnchorClaim | None:
    assert found.brief is not None
    facts = {
        **state.as_facts("task", "contract", "repository_map", "test_files"),
        "brief": found.brief.model_dump(),
        "earlier_problem": problem,
    }
    exchange = await converse(
        session,
        "anchor",
        prompt_beside(__file__, "reproduction_anchor"),
        facts,
        AnchorClaim,
        state.limits(_WRITER_ROUNDS),
        toolbox("anchor", state),
    )
    return exchange.answer


async def _checked(
    state: State, claim: AnchorClaim, start: str, session: Session
) -> tuple[Anchor | None, str]:
    """The anchor if the claim holds, or what is wrong with it. It is run alone on the tree of
    the `start`, without whatever else its writer left, and is all that there is afterwards."""
    if is_test_support(claim.path):
        return None, f"{claim.path} is configuration of a test runner, not a test"
    content = await session.act(
        "read anchor", {"path": claim.path}, lambda w: _new_file(w, claim.path), str
    )
    if not content:
        return None, f"{claim.path} is no new file"
    if not asserts_something(content):
        return None, f"{claim.path} asserts nothing that can fail"
    await session.take(start)
    encoded = content.encode()
    await session.act(
        "write anchor", {"path": claim.path}, lambda w: w.write(claim.path, encoded), type(None)
    )
    alone = session.tree
    protection = Protection({claim.path: encoded})
    done = await run_tests([claim.path], state.tools, protection, session)
    await session.take(alone)
    if problem := not_reproduced(done, claim.path):
        return None, problem
    return Anchor(claim.path, content, render_tests(done), tuple(done.failed)), ""


async def _new_file(workspace: Workspace, path: str) -> str:
    """Its content if it is not in the base commit, else nothing."""
    added = {change.path for change in await workspace.changes() if change.status == "added"}
    return (await workspace.read(path)).decode("utf-8", "replace") if path in added else ""


def not_reproduced(done: TestRun, path: str) -> str:
    """What keeps a run of the test at `path` from showing that the task is not done; empty if
    it shows it. A name that is missing in the test is the test's own fault, elsewhere it may be
    what the task is about."""
    own_fault = re.search(rf"^{re.escape(path)}:\d+: NameError$", done.output, re.MULTILINE)
    if done.exit_code == 0:
        return "the test passes although nothing has been done yet"
    if done.exit_code != _TESTS_FAILED:
        return f"the test does not run: exit code {done.exit_code}\n{done.output[-2000:]}"
    if done.errors or own_fault or _NOT_BY_ASSERTION.search(done.output):
        return f"the test fails by an error, not at an assertion\n{done.output[-2000:]}"
    return ""


def asserts_something(source: str) -> bool:
    """Whether a Python test has an assertion that depends on what is tested, by its syntax.

    `assert` of an expression with a call or a name in it, `self.assert...(...)` of `unittest`,
    and `pytest.raises` count; constants do not.
    """
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return False
    return any(_is_assertion(node) for node in ast.walk(tree))


def _is_assertion(node: ast.AST) -> bool:
    match node:
        case ast.Assert(test=test):
            return _depends_on_something(test)
        case ast.Call(func=ast.Attribute(attr=name), args=args) if name.startswith("assert"):
            return any(_depends_on_something(argument) for argument in args)
        case ast.Call(func=ast.Attribute(value=ast.Name(id="pytest"), attr="raises")):
            return True
        case _:
            return False


def _depends_on_something(expression: ast.expr) -> bool:
    return any(isinstance(node, ast.Call | ast.Name) for node in ast.walk(expression))


async def _with_baseline(state: State, found: Reproduction, session: Session) -> Reproduction:
    """With a run of the regression set before anything was changed; it leaves nothing behind."""
    if not found.regression_tests:
        return found
    before, protection = session.tree, protecting(found.anchor)
    baseline = await run_tests(found.regression_tests, state.tools, protection, session)
    await session.take(before)
    return replace(found, baseline=baseline)
