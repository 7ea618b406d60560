"""Phase 3: the task as a failing test, verified by running it."""

import ast
import builtins
import re
from dataclasses import dataclass, replace

from agent.arms.durable.answers import AnchorClaim, Brief
from agent.arms.durable.roles import ask, protecting
from agent.arms.durable.state import Anchor, Evidence, Reproduction, State
from agent.arms.durable.verification import add_test
from agent.checks import baseline, no_result, run_protected
from agent.errors import Undone
from agent.journal import TreeRef
from agent.runner_settings import is_test_support
from agent.session.session import Session
from agent.tools import Protection, TestRun
from agent.tools.protection import explain
from agent.tools.rendering import render_tests
from agent.tools.testing import run_paths
from agent.workspaces import Workspace

REPRODUCIBLE = frozenset({"bugfix", "feature", "unknown"})
"""Kinds of tasks that start with a failing test. An `unknown` task can be of another kind."""

_WRITER_ROUNDS = 16
_BUILTINS = frozenset(dir(builtins))
_ACTIONS = (ast.Call, ast.Await, ast.Subscript, ast.BinOp, ast.Attribute)
_SHOWN = 2000
# At the start of a line, as an error and not as a part of an assertion. pytest prints `E` there.
_NOT_BY_ASSERTION = re.compile(
    r"^(E +)?(\w+\.)*(ImportError|ModuleNotFoundError|SyntaxError|IndentationError|TabError"
    r"|NameError|ReferenceError|TypeError|AttributeError|FileNotFoundError|ImproperlyConfigured)(:|$)"
    r"|^panic: runtime error|fixture '.*' not found|errors? during collection|[Nn]o module named",
    re.MULTILINE,
)
_ASSERTION = re.compile(r"\bAssertionError\b|DID NOT RAISE|^E +assert\b", re.MULTILINE)
# `t.Errorf(`, `assert.Equal(`, `expect(`, `assert_eq!(`, `EXPECT_EQ(`
_ASSERTS_ELSEWHERE = re.compile(
    r"\b(?:t|tb|b)\.(?:Error|Fatal|Fail)\w*\(|\b(?:assert|expect|require|verify|should|fail)"
    r"[\w.]*!?\(|\bpanic!\(|\.should\b",
    re.IGNORECASE,
)
_BY_CHANCE = "the test does not fail every time without the change, or passes with any edit"


async def reproduce(state: State, session: Session) -> Reproduction:
    """Return a brief, an anchor test that fails on the base commit, and the regression tests.

    Without an anchor test, `problem` is the reason, and the work tree is unchanged.
    """
    facts = state.as_facts("task", "contract", "test_files")
    brief = await ask("brief", state, session.scope("brief"), "reproduction_brief", facts, Brief)
    if brief is None:
        return Reproduction(problem="the model gave no valid brief")
    named = await state.find_named_tests(brief.regression_tests, session.scope("named"))
    result = replace(Reproduction(brief), regression_tests=named.files)
    kind = state.contract.kind
    if not state.probe.works:
        result = replace(result, problem=f"the test runner does not work: {state.probe.reason}")
    elif state.profile.reproduction == "off":
        result = replace(result, problem="the profile wants no reproduction")
    elif kind not in REPRODUCIBLE:
        result = replace(result, problem=f"a {kind} task is not begun with a test")
    else:
        result = await _add_anchor(state, brief, result, session)
    if not result.regression_tests:
        return result
    before = await baseline(
        result.regression_tests,
        state.tools,
        protecting(result.anchor),
        session.scope("baseline"),
        share=state.profile.regression_share,
    )
    state.note_not_run(before.left_out)
    return replace(
        result,
        regression_tests=before.paths,
        regression_runs=before.runs,
        baseline=before.run,
    )


async def _add_anchor(
    state: State, brief: Brief, result: Reproduction, session: Session
) -> Reproduction:
    """Return the reproduction with an anchor test, or with the reason why the last try failed."""
    start, problem = session.tree, ""
    for number in range(1, state.profile.anchor_tries + 1):
        writing = session.scope(f"anchor-{number}")
        facts = {
            **state.as_facts("task", "contract", "test_files"),
            "brief": brief.model_dump(),
            "earlier_problem": problem,
        }
        prompt, limits = "reproduction_anchor", state.limits(_WRITER_ROUNDS)
        claim = await ask("anchor", state, writing, prompt, facts, AnchorClaim, limits)
        if claim is None or not claim.reproduced:
            problem = claim.reason if claim else "the writer gave no valid answer"
        else:
            anchor, problem = await _check(state, claim, start, writing)
            if anchor is not None:
                more = await state.find_named_tests(claim.regression_tests, writing.scope("named"))
                tests = tuple(dict.fromkeys([*result.regression_tests, *more.files]))
                return replace(result, anchor=anchor, regression_tests=tests)
        await writing.take(start)
    return replace(result, problem=problem)


async def _check(
    state: State, claim: AnchorClaim, start: TreeRef, session: Session
) -> tuple[Anchor | None, str]:
    """Return the anchor test if the claim holds, or the reason why it does not.

    The test runs alone on the tree `start`, without other files of its writer. Afterwards, the
    work tree is `start` with the anchor test.
    """
    path = claim.path

    async def read(workspace: Workspace) -> str:
        added = {change.path for change in await workspace.changes() if change.status == "added"}
        return (await workspace.read(path)).decode("utf-8", "replace") if path in added else ""

    content = await session.act("read anchor", {"path": path}, read, str, depends_on={})
    if not content:
        return None, f"{path} is no new file"
    await session.take(start)
    return await check_on_base(state, path, content, session)


async def check_on_base(
    state: Evidence, path: str, content: str, session: Session
) -> tuple[Anchor | None, str]:
    """Run a new test twice on a work tree without the change, the second time with another edit.

    A test that fails by chance, or that any edit would make pass, is not a reproduction. Return the
    anchor test, which stays in the work tree, or None and the reason.
    """
    if is_test_support(path):
        return None, f"{path} is configuration of a test runner, not a test"
    if not asserts_something(path, content):
        return None, f"{path} asserts nothing that can fail"
    start = session.tree
    tried = await _try_test(state, path, content, session)
    if tried.problem:
        return None, tried.problem
    if not tried.is_alone:
        await session.take(start)
        await add_test(session, path, content)
    return Anchor(path, content, render_tests(tried.tests), tuple(tried.tests.failed)), ""


@dataclass(frozen=True)
class _Tried:
    """A new test that was run without the change."""

    tests: TestRun
    """The first run."""
    problem: str
    """The reason why it is not a reproduction, or ''."""
    is_alone: bool
    """True if the test is the only change of the work tree."""


async def _try_test(state: Evidence, path: str, content: str, session: Session) -> _Tried:
    """Write a new test and run it twice.

    All of it is one step, because each step that changes files takes a look at the whole work tree.
    """
    encoded = content.encode()
    protection = Protection({path: encoded})
    tools = state.tools
    command = tools.runner.shell_command([path])

    async def work(workspace: Workspace) -> _Tried:
        await workspace.write(path, encoded)
        first, second = await run_paths(workspace, tools, [path]), None
        problem = not_reproduced(first)
        if not problem:
            second = await run_paths(workspace, tools, [path], beside_an_edit=True)
        # Protected files are compared once, after both runs. If the first run may have changed the
        # input of the second one, that is repeated.
        if put_back := await protection.enforce(workspace):
            first = replace(first, output=f"{first.output}\n{explain(put_back)}")
            if second is not None:
                second = await run_protected(
                    workspace, tools, [path], protection, beside_an_edit=True
                )
        if second is not None and (second.failed != first.failed or not_reproduced(second)):
            problem = _BY_CHANCE
        changes = [(change.path, change.status) for change in await workspace.changes()]
        return _Tried(first, problem, changes in ([(path, "added")], [(path, "modified")]))

    try:
        return await session.act(
            "reproduce",
            {"path": path, "command": command},
            work,
            _Tried,
            depends_on=[tools, protection],
        )
    except Undone as error:
        none = no_result(command, str(error))
        return _Tried(none, not_reproduced(none), is_alone=False)


def not_reproduced(done: TestRun) -> str:
    """Return the reason why a run of a new test does not reproduce the issue, or ''.

    At least one test has to fail, and all that fail have to fail at an assertion. The text of a
    runner that neither is observed nor writes a report has to show an assertion.
    """
    if done.exit_code == 0:
        return "the test passes although nothing has been done yet"
    if done.problem:
        return f"the test run proves nothing: {done.problem}"
    by_error = f"the test fails by an error, not at an assertion\n{done.output[-_SHOWN:]}"
    if done.errors:
        return by_error
    if done.failed:
        return "" if done.observed or not _NOT_BY_ASSERTION.search(done.output) else by_error
    if done.observed or done.reported:
        return f"no test failed: exit code {done.exit_code}\n{done.output[-_SHOWN:]}"
    fails_at_one = _ASSERTION.search(done.output) and not _NOT_BY_ASSERTION.search(done.output)
    return "" if fails_at_one else by_error


def asserts_something(path: str, source: str) -> bool:
    """Return True if a test has an assertion that depends on the tested code, by its syntax.

    In Python, three forms count: `assert` of an expression with a call or a name in it,
    `self.assert...(...)` of `unittest`, and `pytest.raises`. Constants do not count. In other
    languages, a call of a function with the name of an assertion counts.
    """
    if not path.endswith(".py"):
        return _ASSERTS_ELSEWHERE.search(source) is not None
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # nested too deeply
        return False
    for node in ast.walk(tree):
        match node:
            case ast.Assert(test=test):
                is_assertion = _depends_on_something(test)
            case ast.Call(func=ast.Attribute(attr=name), args=args) if name.startswith("assert"):
                is_assertion = any(map(_depends_on_something, args))
            case ast.With(items=items, body=body) | ast.AsyncWith(items=items, body=body):
                is_assertion = any(_is_raises(item.context_expr) for item in items) and any(
                    isinstance(inner, _ACTIONS) for part in body for inner in ast.walk(part)
                )
            case ast.Call(args=[_, _, *_]):
                is_assertion = _is_raises(node)
            case _:
                is_assertion = False
        if is_assertion:
            return True
    return False


def _is_raises(node: ast.AST) -> bool:
    match node:
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)):
            return name in ("raises", "warns", "deprecated_call") or name.startswith("assert")
        case _:
            return False


def _depends_on_something(expression: ast.expr) -> bool:
    """Return True if a name other than a builtin occurs in the expression."""
    names = {node.id for node in ast.walk(expression) if isinstance(node, ast.Name)}
    return not names <= _BUILTINS
