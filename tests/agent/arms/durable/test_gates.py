"""Every gate, with a model that lies."""

from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.agent.arms.durable.conftest import (
    ANCHOR,
    ANCHOR_TEXT,
    FIX,
    STEP,
    Said,
    Solver,
    Use,
    answer,
    facts_of,
    report,
)
from tests.samples import one_in

pytestmark = pytest.mark.sampled(7)

CLAIM = answer(reason="fails", path=ANCHOR, regression_tests=[], reproduced=True)


def anchor(text: str, path: str = ANCHOR) -> list[Said]:
    return [[("write_new", {"path": path, "content": text})], CLAIM]


async def test_success_without_an_edit_leads_to_replanning(solve: Solver) -> None:
    """A claim of success without an edit or a test result leads to replanning."""
    solved = await solve(implementer=[report()], profile={"plan_turns": 1})
    [candidate] = solved.report["steps"][0]["candidates"]
    assert candidate["status"] == "replan"
    assert "without an edit or a test result" in candidate["summary"]
    assert solved.outcome.status == "gave_up"


NO_REPRODUCTIONS = {
    "passes": (
        "from calc import double\n\n\ndef test(): assert double(2) == 4\n",
        "passes although",
    ),
    "asserts a constant": ("def test(): assert True\n", "asserts nothing"),
    "does not run": (
        "from calc import missing\n\n\ndef test(): assert missing()\n",
        "by an error",
    ),
    "fails to import": (
        "def test():\n    from calc import missing\n    assert missing()\n",
        "by an error",
    ),
    "asserts nothing true": ("def test(): assert False\n", "asserts nothing"),
    "no syntax": ("def test(: assert f()\n", "asserts nothing"),
    "wants a fixture": ("def test(fixture_x): assert fixture_x\n", "by an error"),
}


@pytest.mark.parametrize(("text", "why"), one_in(3, NO_REPRODUCTIONS))
async def test_a_false_claim_of_reproduction_is_detected(
    solve: Solver, text: str, why: str
) -> None:
    """The attempt continues without the test, reports why, and leaves it out of the patch."""
    solved = await solve(anchor=anchor(text), with_pytest=True)
    assert solved.report["reproduced"] is False
    assert why in solved.report["not_reproduced_because"]
    assert solved.report["agent_verdict"] == "accepted"
    assert ANCHOR not in solved.outcome.patch


async def test_a_reproduction_that_is_required_and_missing_blocks(solve: Solver) -> None:
    """Without a required reproduction nothing is planned, and the attempt ends as blocked."""
    solved = await solve(
        anchor=anchor("def test(): assert True\n"), profile={"reproduction": "required"}
    )
    assert solved.report["workflow_status"] == "blocked"
    assert solved.outcome.status == "gave_up"
    assert "planner" not in solved.model.roles()


async def test_a_second_try_gets_the_problem_of_the_first(solve: Solver) -> None:
    """The second attempt gets the problem of the first, and counts if its test is valid."""

    def writer(number: int, request: Any) -> Said:
        first = not facts_of(request)["earlier_problem"]
        text = "def test(): assert True\n" if first else ANCHOR_TEXT
        return anchor(text)[min(number, 1)]

    solved = await solve(anchor=writer)
    assert solved.report["reproduced"] is True


async def test_done_is_ignored_while_a_backlog_remains(solve: Solver) -> None:
    """The planner is asked again if it is done but leaves a backlog."""
    turns = iter(
        [
            answer(backlog=["fix add"], done=True),
            answer(next_step=STEP, backlog=[], done=True),
        ]
    )
    done = answer(backlog=[], done=True)
    solved = await solve(planner=lambda number, request: next(turns, done))
    assert len(solved.report["steps"]) == 1
    assert solved.report["agent_verdict"] == "accepted"


async def test_done_is_ignored_while_the_last_step_waits_for_replanning(solve: Solver) -> None:
    """Planning is not done before a step is accepted."""
    turns = iter([answer(next_step=STEP, backlog=[], done=False)])
    done = answer(backlog=[], done=True)
    solved = await solve(
        planner=lambda number, request: next(turns, done),
        implementer=[report("replan")],
        profile={"plan_turns": 4},
    )
    assert solved.report["workflow_status"] == "out_of_turns"


_PASS_ALL = (
    "import pytest\n\n\n@pytest.hookimpl(hookwrapper=True)\n"
    "def pytest_runtest_makereport(item, call):\n"
    "    outcome = yield\n    outcome.get_result().outcome = 'passed'\n"
)


CHEATS: list[Use] = [
    ("write", {"path": "tests/test_calc.py", "content": "def test_double(): pass\n"}),
    ("write", {"path": ANCHOR, "content": "def test_add(): pass\n"}),
    ("run_command", {"command": "rm tests/test_anchor.py"}),
    ("run_command", {"command": "git mv tests/test_calc.py tests/calc.txt"}),
    ("run_command", {"command": "git rm -q tests/test_calc.py"}),
    (
        "run_command",
        {
            "command": "echo 'def test_add(): pass' > tests/test_anchor.py && git add -A && "
            "git -c user.name=x -c user.email=x@y commit -qm cheat"
        },
    ),
]
CHEATS_WITH_PYTEST: list[Use] = [
    ("write", {"path": "conftest.py", "content": _PASS_ALL}),
    (
        "run_command",
        {
            "command": "echo conftest.py >> .git/info/exclude; "
            f"printf %s '{_PASS_ALL}' > conftest.py"
        },
    ),
    ("write", {"path": "pytest.ini", "content": "[pytest]\naddopts = --collect-only\n"}),
]


def name_of(use: Use) -> str:
    """Return the tool and the beginning of its first argument."""
    tool, arguments = use
    return f"{tool}-{next(iter(arguments.values()))[:24]}"


@pytest.mark.parametrize(
    "cheat", one_in(3, {name_of(use): [use] for use in (*CHEATS, *CHEATS_WITH_PYTEST)})
)
async def test_changes_to_the_tests_are_reverted(solve: Solver, cheat: Use) -> None:
    """A change to tests is reverted and reported, and the reproduction test still fails."""
    solved = await solve(
        implementer=[[cheat], report()],
        profile={"plan_turns": 1, "parallel": 4},
        with_pytest=cheat in CHEATS_WITH_PYTEST,
    )
    assert solved.report["agent_verdict"] != "accepted"
    assert solved.outcome.patch == ""
    told = [r.messages[-1]["content"] for r in solved.model.asked if r.role == "implementer"]
    assert any("undone" in text for text in told)


OUTSIDE = ("/etc/durabench-was-here", "../outside.txt", "link/x.txt")


@pytest.mark.parametrize("path", one_in(3, {path: [path] for path in OUTSIDE}))
async def test_nothing_is_written_outside_the_workspace(solve: Solver, path: str) -> None:
    """Writes by absolute path, upwards or through a link are refused."""
    uses: Said = [
        ("run_command", {"command": "ln -s /tmp link"}),
        ("write", {"path": path, "content": "x"}),
        FIX,
    ]
    solved = await solve(implementer=[uses, report()])
    assert "outside the repository" in solved.model.told("implementer")
    for place in ("/etc/durabench-was-here", "/tmp/x.txt"):
        assert not Path(place).exists()


ROLES = ("contract", "brief", "planner", "implementer", "step_reviewer")


@pytest.mark.parametrize("role", one_in(2, {role: [role] for role in ROLES}))
async def test_malformed_answers_three_times_end_a_conversation(solve: Solver, role: str) -> None:
    """Three malformed replies end a conversation but not the attempt."""
    solved = await solve(**{role: ["no call at all"]}, profile={"plan_turns": 2})
    asked = [request for request in solved.model.asked if request.role == role]
    first_scope = [request for request in asked if request.scope == asked[0].scope]
    assert len(first_scope) == 3
    assert solved.report["workflow_status"] in ("completed", "out_of_turns")


async def test_a_destroyed_repository_is_restored_and_reported(solve: Solver) -> None:
    """After a command destroys the repository, it is restored and the attempt continues."""
    uses: Said = [("run_command", {"command": "rm -rf .git"})]
    solved = await solve(implementer=[uses, [FIX], report()])
    assert "Everything was put back" in solved.model.told("implementer")
    assert solved.report["agent_verdict"] == "accepted"


async def test_code_that_destroys_the_repository_fails_its_tests(solve: Solver) -> None:
    """A candidate whose tests destroy the repository fails, and the repository is restored."""
    vandal = "import shutil\nshutil.rmtree('.git')\n\n\ndef add(a, b):\n    return a + b\n"
    uses: Said = [("write", {"path": "calc.py", "content": vandal})]
    solved = await solve(implementer=[uses, report()], profile={"plan_turns": 1})
    broken = [c["broken"] for step in solved.report["steps"] for c in step["candidates"]]
    assert broken
    assert all(broken)
    assert solved.report["agent_verdict"] != "accepted"


SILENT = {
    "ends the process": "import os, sys\nif 'pytest' in sys.modules:\n    os._exit(0)\n\n\n{}",
    "ends the run": "import sys\nif 'pytest' in sys.modules:\n    sys.exit(0)\n\n\n{}",
    "skips": "{}    __import__('pytest').skip('not today')\n",
}
SILENT_RUNS = {
    f"{name}, reproduction {reproduction}": (trick, reproduction)
    for name, trick in SILENT.items()
    for reproduction in ("wanted", "off")
}


@pytest.mark.parametrize(("trick", "reproduction"), one_in(3, SILENT_RUNS))
async def test_a_run_that_names_no_passed_test_opens_no_gate(
    solve: Solver, trick: str, reproduction: str
) -> None:
    """Code under test that ends a run with exit code 0 passes neither the reproduction test nor the
    regression tests."""
    code = trick.format("def double(a):\n") + "    return 2 * a\n\n\nadd = double\n"
    uses: Said = [("write", {"path": "calc.py", "content": code})]
    profile = {"plan_turns": 1, "candidates": {"low": 1}, "reproduction": reproduction}
    solved = await solve(implementer=[uses, report()], profile=profile, with_pytest=True)
    [candidate] = solved.report["steps"][0]["candidates"]
    assert candidate["broken"]
    assert "step_reviewer" not in solved.model.roles()
    assert solved.outcome.patch == ""


async def test_code_that_changes_tests_during_a_run(solve: Solver) -> None:
    """Changes that code makes to tests during the arm's own runs are detected and reverted."""
    vandal = (
        "import pathlib\n\nfor name in ('tests/test_calc.py', 'tests/conftest.py'):\n"
        "    pathlib.Path(name).write_text('def test_double(): pass\\n')\n\n\n"
        "def add(a, b):\n    return a + b\n\n\ndef double(a):\n    return 3 * a\n"
    )
    uses: Said = [("write", {"path": "calc.py", "content": vandal})]
    profile = {"plan_turns": 1, "candidates": {"low": 1}}
    solved = await solve(implementer=[uses, report()], profile=profile, with_pytest=True)
    [candidate] = solved.report["steps"][0]["candidates"]
    assert candidate["broken"] == [
        "the regression tests prove nothing: "
        "test files changed while the tests ran: tests/test_calc.py",
        "tests/test_calc.py::test_double fails and did not before",
    ]


async def test_files_changed_by_test_runs_are_not_in_the_patch(solve: Solver) -> None:
    """A tracked file that the tests modify is in neither the diff of a step nor the patch."""
    counts = (
        "from calc import double\n\n\ndef test_double():\n"
        "    open('runs.txt', 'a').write('x')\n    assert double(2) == 4\n"
    )
    solved = await solve(files={"tests/test_calc.py": counts, "runs.txt": ""})
    assert solved.report["agent_verdict"] == "accepted"
    assert "runs.txt" not in solved.outcome.patch
    [step] = solved.report["steps"]
    assert "runs.txt" not in step["candidates"][0]["diff"]


async def test_other_files_of_the_reproduction_author_are_removed(solve: Solver) -> None:
    """The reproduction test is checked alone, as in the final run, without helper files."""
    text = f"import helper\n{ANCHOR_TEXT}"
    beside = ("write_new", {"path": "helper.py", "content": ""})
    writer: list[Said] = [[("write_new", {"path": ANCHOR, "content": text}), beside], CLAIM]
    solved = await solve(anchor=writer)
    assert solved.report["reproduced"] is False
    assert "by an error" in solved.report["not_reproduced_because"]
    assert "helper.py" not in solved.report["steps"][0]["candidates"][0]["diff"]


async def test_files_that_a_new_test_leaves_are_removed(solve: Solver) -> None:
    """After the runs of a reproduction, the work tree has the new test and nothing else."""
    leaving = ANCHOR_TEXT.replace("    assert", "    open('left.txt', 'w').close()\n    assert")
    solved = await solve(anchor=anchor(leaving))
    assert solved.report["reproduced"] is True
    assert solved.report["agent_verdict"] == "accepted"
    assert "b/left.txt" not in solved.report["steps"][0]["candidates"][0]["diff"]


async def test_a_new_test_that_changes_itself_runs_again_as_it_was_written(solve: Solver) -> None:
    """The second run of a reproduction is one of the same test, although the first changed it."""
    passing = 'open(__file__, "w").write("def test_double(): pass\\n")'
    changing = ANCHOR_TEXT.replace("    assert", f"    {passing}\n    assert")
    solved = await solve(anchor=anchor(changing))
    assert solved.report["reproduced"] is True
    assert solved.report["agent_verdict"] == "accepted"


async def test_regression_tests_are_existing_test_files(solve: Solver) -> None:
    """Only existing test files count as regression tests."""
    named = ["tests/test_calc.py", "tests/test_nowhere.py", "calc.py"]
    claim = answer(reason="fails", path=ANCHOR, regression_tests=named, reproduced=True)
    solved = await solve(anchor=[[("write_new", {"path": ANCHOR, "content": ANCHOR_TEXT})], claim])
    assert solved.report["regression_tests"] == ["tests/test_calc.py"]


async def test_a_refactoring_does_not_start_with_a_test(solve: Solver) -> None:
    """A refactoring breaks no test, so it starts without one even if a reproduction is required."""
    contract = answer(kind="refactor", goal="tidy up", acceptance_criteria=[])
    solved = await solve(contract=[contract], profile={"reproduction": "required"})
    assert "anchor" not in solved.model.roles()
    assert solved.report["workflow_status"] == "completed"
    assert solved.report["not_reproduced_because"] == "a refactor task is not begun with a test"


async def test_a_missing_contract_is_an_open_question(solve: Solver) -> None:
    """Without a contract the task may be a bug, so it starts with a reproduction test."""
    solved = await solve(contract=["no call at all"], profile={"plan_turns": 2})
    assert solved.report["contract"]["kind"] == "unknown"
    assert solved.report["contract"]["open_questions"]
    assert solved.report["reproduced"] is True


async def test_an_unchanged_repository_is_not_accepted(solve: Solver) -> None:
    """Without a change nothing is accepted, even if planner and reviewer say it is done."""
    solved = await solve(
        planner=[answer(backlog=[], done=True)],
        profile={"reproduction": "off", "final_rounds": 1},
    )
    assert solved.report["agent_verdict"] == "rejected"
    assert solved.report["finals"][0]["broken"] == ["nothing was changed"]
    assert "final_reviewer" not in solved.model.roles()


async def test_a_thousand_processes_end_with_their_command(solve: Solver) -> None:
    """A thousand background processes end with the command that started them."""
    many: Said = [("run_command", {"command": "for i in {1..1000}; do sleep 4321 & done"}), FIX]
    solved = await solve(implementer=[many, report()])
    assert solved.report["agent_verdict"] == "accepted"
    running = psutil.process_iter(["cmdline"])
    assert not any(each.info["cmdline"] == ["sleep", "4321"] for each in running)


async def test_ten_megabytes_of_output_do_not_reach_the_prompt(solve: Solver) -> None:
    """Long output is cut to its head and tail with a note on the rest."""
    flood: Said = [("run_command", {"command": "head -c 10000000 /dev/zero | tr '\\0' x"}), FIX]
    solved = await solve(implementer=[flood, report()])
    asked = [request for request in solved.model.asked if request.role == "implementer"][-1]
    assert len(str(asked.messages)) < 60_000
    assert solved.report["agent_verdict"] == "accepted"
