"""Typed answers of the stages."""

from pydantic import Field

from agent.conversation.answers import Answer

MOST_SUBTASKS = 6


class Findings(Answer):
    """Knowledge of the code for the next stages."""

    summary: str = Field(description="how the code works where the task is about it, and why")
    files: list[str] = Field(description="paths that have to change or to be read, with the reason")
    tests: list[str] = Field(default=[], description="paths of the existing tests of that code")


class Subtask(Answer):
    """One part of the work."""

    title: str = Field(min_length=1, description="a few words")
    instructions: str = Field(min_length=1, description="what to change, where, and why")


class SubtaskPlan(Answer):
    """The subtasks, in the order in which they are built."""

    subtasks: list[Subtask] = Field(
        min_length=1,
        max_length=MOST_SUBTASKS,
        description="as few as the task needs; a small task is one",
    )
