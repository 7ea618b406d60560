"""The whole arm on a small repository, with a model that is honest."""

import pytest

from tests.agent.durable.conftest import (
    ANCHOR,
    FIX,
    SPOIL,
    STEP,
    Said,
    Solver,
    answer,
    facts_of,
    report,
    review,
)


async def test_an_honest_model_solves_the_task_in_one_step(solve: Solver) -> None:
    """The patch holds the fix alone; four separate statements say how it came about."""
    solved = await solve()
    assert solved.outcome.status == "submitted"
    assert "+    return a + b" in solved.outcome.patch
    assert ANCHOR not in solved.outcome.patch
    stated = ("workflow_status", "agent_verdict", "reproduced", "prediction_emitted")
    assert [solved.report[name] for name in stated] == ["completed", "accepted", True, True]
    assert solved.model.roles() == [
        "contract",
        "brief",
        *["anchor"] * 2,
        "planner",
        *["implementer"] * 2,
        "step_reviewer",
        "planner",
        "final_reviewer",
    ]
    assert solved.report["usage_by_role"]["implementer"]["calls"] == 2
    assert solved.report["usage_by_role"]["contract"]["cost_usd"] == pytest.approx(0.01)


async def test_the_text_protocol_comes_to_the_same(solve: Solver) -> None:
    """A model without native tools asks in fenced blocks, and gets no tool definitions."""
    solved = await solve(native=False)
    assert solved.report["agent_verdict"] == "accepted"
    assert "+    return a + b" in solved.outcome.patch
    assert all(request.tools == [] for request in solved.model.asked)


@pytest.mark.parametrize(("confidence", "candidates"), [("high", 1), ("medium", 2), ("low", 4)])
async def test_confidence_decides_how_many_candidates_there_are(
    solve: Solver, confidence: str, candidates: int
) -> None:
    """As the profile says; each begins at the same tree."""
    solved = await solve(
        implementer=[[FIX], report(confidence=confidence)],
        profile={"parallel": 4},
    )
    [step] = solved.report["steps"]
    assert len(step["candidates"]) == min(candidates, 5)
    assert len({candidate["diff"] for candidate in step["candidates"]}) == 1


async def test_a_failing_anchor_asks_for_alternatives_without_a_reviewer(solve: Solver) -> None:
    """The first candidate is wrong, the second right: that one is taken."""

    def implementer(number: int, request: object) -> Said:
        first = facts_of(request)["candidate"] == 0  # type: ignore[arg-type]
        return [SPOIL if first else FIX] if number == 0 else report()

    solved = await solve(implementer=implementer, profile={"parallel": 1})
    [step] = solved.report["steps"]
    assert [candidate["verdict"] for candidate in step["candidates"]] == ["revise", "accept"]
    assert step["chosen"] == 1
    assert solved.model.roles().count("step_reviewer") == 1
    assert "+    return a + b" in solved.outcome.patch


async def test_a_regression_forces_a_revision(solve: Solver) -> None:
    """What passed at the base commit has to pass again, whatever the anchor says."""
    breaks = [FIX, ("edit", {"path": "calc.py", "old": "2 * a", "new": "3 * a"})]
    solved = await solve(implementer=[breaks, report()], profile={"plan_turns": 1})
    [step] = solved.report["steps"]
    assert {candidate["verdict"] for candidate in step["candidates"]} == {"revise"}
    assert step["candidates"][0]["broken"] == [
        "tests/test_calc.py::test_double fails and did not before"
    ]
    assert solved.report["agent_verdict"] == "rejected"


async def test_issues_of_a_review_fold_back_into_the_backlog(solve: Solver) -> None:
    """The planner is given them, and what stood there before comes after."""
    reviews = iter([review("revise", "handle strings")] * 4)

    def reviewer(number: int, request: object) -> Said:
        return next(reviews, review())

    solved = await solve(step_reviewer=reviewer)
    planned = [facts_of(asked) for asked in solved.model.asked if asked.role == "planner"]
    assert planned[1]["backlog"] == ["handle strings"]
    assert planned[1]["last_step"]["status"] == "revise"


async def test_partial_work_of_a_step_that_asks_for_replanning_is_kept(solve: Solver) -> None:
    """The next step finds it in the work tree."""
    half = ("write", {"path": "helper.py", "content": "HALF = 1\n"})

    def implementer(number: int, request: object) -> Said:
        again = facts_of(request)["last_step"] is not None  # type: ignore[arg-type]
        if number == 0:
            return [FIX] if again else [half]
        return report() if again else report("replan")

    solved = await solve(implementer=implementer)
    assert [step["candidates"][0]["status"] for step in solved.report["steps"]] == [
        "replan",
        "done",
    ]
    assert "+HALF = 1" in solved.outcome.patch
    assert "+    return a + b" in solved.outcome.patch


async def test_a_gatherer_answers_with_real_lines(solve: Solver) -> None:
    """It names lines; what the planner reads next turn is what stands there."""
    turns = iter(
        [
            answer(context_needed=["what does add do?"], backlog=["fix add"], done=False),
            answer(next_step=STEP, backlog=[], done=False),
        ]
    )
    done = answer(backlog=[], done=True)
    solved = await solve(planner=lambda number, request: next(turns, done))
    second = [facts_of(asked) for asked in solved.model.asked if asked.role == "planner"][1]
    assert [(lines["path"], lines["text"]) for lines in second["context"]] == [
        ("calc.py", "def add(a, b):\n    return a - b")
    ]


async def test_what_a_command_leaves_behind_is_not_in_the_patch(solve: Solver) -> None:
    """New files that no editing tool was asked for are stray."""
    litter: Said = [FIX, ("run_command", {"command": "echo notes > scratch.txt"})]
    solved = await solve(implementer=[litter, report()])
    assert "scratch.txt" not in solved.outcome.patch
    assert "+    return a + b" in solved.outcome.patch


async def test_a_final_review_that_is_not_content_goes_on(solve: Solver) -> None:
    """Its issues are the new backlog, until the final reviews are used up."""
    finals = iter([review("revise", "write a docstring"), review()])
    documented = ("edit", {"path": "calc.py", "old": "(a, b):", "new": '(a, b):\n    """Add."""'})

    def implementer(number: int, request: object) -> Said:
        again = facts_of(request)["completed_steps"]  # type: ignore[arg-type]
        return [documented if again else FIX] if number == 0 else report()

    solved = await solve(
        final_reviewer=lambda number, request: next(finals), implementer=implementer
    )
    assert [final["verdict"] for final in solved.report["finals"]] == ["revise", "accept"]
    assert len(solved.report["steps"]) == 2


async def test_running_out_of_rounds_asks_for_replanning(solve: Solver) -> None:
    """A loop on one command ends, and the planner hears why."""
    loop: Said = [("run_command", {"command": "ls"})]
    solved = await solve(implementer=[loop], profile={"step_rounds": 3, "plan_turns": 1})
    [step] = solved.report["steps"]
    [candidate] = step["candidates"]
    assert (candidate["status"], candidate["summary"]) == ("replan", "out of rounds")


async def test_a_full_context_blocks_and_spills_without_another_call(solve: Solver) -> None:
    """Beyond 80 % only an answer is taken; beyond 95 % nobody is asked any more."""
    noisy: Said = [("run_command", {"command": "seq 1 3000"})]
    solved = await solve(
        implementer=[noisy],
        profile={"context_tokens": 6000, "plan_turns": 1, "step_rounds": 30},
    )
    [step] = solved.report["steps"]
    assert step["candidates"][0]["status"] == "blocked"
    asked = [len(r.tools) for r in solved.model.asked if r.role == "implementer"]
    assert len(asked) < 10
