"""Typed answers of the roles. A model is given the JSON schema of its answer's class.

In an answer with a verdict, the reasons precede the verdict: a model that has to give them first
judges better. A verdict without reasons is invalid.
"""

from typing import Literal

from pydantic import Field

from agent.arms.durable.options import Confidence
from agent.conversation.exchanges import Answer

Kind = Literal["bugfix", "feature", "refactor", "frontend", "test", "docs", "unknown"]


class Contract(Answer):
    """What has to be done, as far as the task's text says it."""

    kind: Kind
    goal: str = Field(description="one sentence")
    acceptance_criteria: list[str] = Field(description="each one checkable")
    non_goals: list[str] = Field(default=[], description="what must stay as it is")
    affected_areas: list[str] = Field(default=[], description="modules, classes, commands")
    risks: list[str] = Field(default=[])
    tests_expected: list[str] = Field(default=[], description="behaviour that tests should show")
    open_questions: list[str] = Field(
        default=[], description="whatever the text leaves open; never settled by a guess"
    )


class Brief(Answer):
    """How the task is going to be reproduced, and roughly what work it will take."""

    summary: str = Field(description="what is wrong or missing, and where")
    anchor_path: str = Field(
        description="new file for the anchor test, relative to the repository's root"
    )
    anchor_idea: str = Field(description="what the anchor test does and what it asserts")
    round_trip: bool = Field(
        description="whether the behaviour is symmetric (read/write, encode/decode), so that "
        "the anchor goes there and back"
    )
    regression_tests: list[str] = Field(
        description="existing test files that cover the code in question"
    )
    backlog: list[str] = Field(description="rough steps, in order, each a single change")


class AnchorClaim(Answer):
    """What the writer of the anchor test says of it; a machine checks the claim."""

    reason: str = Field(description="why the test fails now and will pass when the task is done")
    path: str = Field(description="the anchor test's file")
    regression_tests: list[str] = Field(description="existing test files to run along with it")
    reproduced: bool = Field(description="false where the task cannot be shown by a test")


class LineReference(Answer):
    """A range of lines in a file, 1-based and inclusive."""

    path: str
    start: int = Field(ge=1)
    end: int = Field(ge=1)
    why: str = Field(description="what the lines are needed for")


class Gathered(Answer):
    """Where the lines are that somebody needs to see; the lines are read by machine."""

    references: list[LineReference]


class NextStep(Answer):
    """One change, small enough to be made and reviewed on its own."""

    title: str
    instructions: str = Field(description="what to change, where and why")
    targets: list[str] = Field(description="files that will probably change")
    tests: list[str] = Field(default=[], description="test files that show whether it worked")


class PlanTurn(Answer):
    """One turn of the rolling planner."""

    facts: list[str] = Field(default=[], description="what this turn found out, one line each")
    context_needed: list[str] = Field(
        default=[], description="questions about the code; a gatherer answers them next turn"
    )
    next_step: NextStep | None = Field(default=None, description="the one step to make now")
    backlog: list[str] = Field(description="what remains after that step, in order")
    done: bool = Field(description="true when nothing remains to be done")


class StepReport(Answer):
    """What an implementer says at the end of a step; evidence decides whether it counts."""

    summary: str = Field(description="what was changed and why that is right")
    status: Literal["done", "replan", "blocked"] = Field(
        description="replan: the step as given does not fit the code; blocked: it cannot be made"
    )
    confidence: Confidence


class Review(Answer):
    """A judgement of a step or of the whole change, by what tests and the diff show."""

    reasons: list[str] = Field(min_length=1, description="what the evidence says, before a verdict")
    issues: list[str] = Field(
        default=[], description="defects that must be mended before the change is merged, one each"
    )
    remarks: list[str] = Field(default=[], description="everything else; it blocks nothing")
    verdict: Literal["accept", "revise"]


class Work(Answer):
    """The end of the work on a task. Tests decide whether it counts."""

    summary: str = Field(description="what was wrong, what was changed and why that is right")
    test: str = Field(
        default="",
        description="the new test file that fails without the change and passes with it",
    )
    no_test_because: str = Field(
        default="", description="the reason why no test can show the change; only without `test`"
    )
    related_tests: list[str] = Field(
        default=[], description="existing test files that cover the changed code"
    )
    conflicting_tests: list[str] = Field(
        default=[],
        description="existing tests that expect exactly the behaviour that the task changes",
    )
    remaining: list[str] = Field(
        default=[], description="parts of the task that are not done yet, in order"
    )
    status: Literal["done", "blocked"] = Field(
        description="blocked: the change cannot be made; the summary says why"
    )
    confidence: Confidence


class Ruling(Answer):
    """The cause of a failing check: the code, the new test, or an existing test."""

    reasons: list[str] = Field(
        min_length=1, description="what the task's text and the evidence say, before the cause"
    )
    cause: Literal["code", "new_test", "existing_test"] = Field(
        description="code: the change is wrong or incomplete; new_test: the new test asks for "
        "something that the task does not; existing_test: the task demands what this test forbids"
    )
    tests: list[str] = Field(
        default=[], description="ids of the existing tests that the task contradicts"
    )


class Scouting(Answer):
    """What has to be done and how, found by reading only."""

    contract: Contract
    cause: str = Field(description="what is wrong or missing, and where, as read in the code")
    approach: str = Field(description="how to do it; different from what failed before")
    test_idea: str = Field(description="what the new test does and what it asserts")
    related_tests: list[str] = Field(
        default=[], description="existing test files that cover the code in question"
    )
    steps: list[NextStep] = Field(
        min_length=1, description="in order; most tasks are one step, so split only what must be"
    )
