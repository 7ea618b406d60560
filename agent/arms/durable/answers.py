"""Typed answers of the roles. A model is given the JSON schema of its answer's class.

In an answer with a verdict, the reasons precede the verdict: a model that has to give them first
judges better. A verdict without reasons is invalid.
"""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

Kind = Literal["bugfix", "feature", "refactor", "frontend", "test", "docs", "unknown"]
Confidence = Literal["high", "medium", "low"]


class Answer(BaseModel):
    """Base of all answers: unknown fields are errors, so that a misspelt one is noticed."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Contract(Answer):
    """What has to be done, as far as the task's text says it."""

    kind: Kind
    goal: str = Field(description="one sentence")
    acceptance_criteria: list[str] = Field(description="each one checkable")
    non_goals: list[str] = Field(default=[], description="what must stay as it is")
    affected_areas: list[str] = Field(default=[], description="modules, classes, commands")
    risks: list[str] = []
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
    issues: list[str] = Field(default=[], description="what has to be changed, one task each")
    verdict: Literal["accept", "revise"]
