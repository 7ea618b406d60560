"""The number of model calls in an ATIF trajectory, read without its texts."""

from __future__ import annotations

from typing import Protocol

from pydantic import BaseModel, ValidationError


class CountedStep(Protocol):
    """What decides whether a step of an agent counts as calls."""

    @property
    def metrics(self) -> object | None: ...
    @property
    def llm_call_count(self) -> int | None: ...
    @property
    def is_copied_context(self) -> bool | None: ...


def count_calls(step: CountedStep, *, is_measured: bool) -> int:
    """Return the number of calls that a step of an agent counts as.

    Several steps can belong to one call: in a line with figures (`is_measured`), steps without
    figures and without a count are not calls. A copied step was paid for where it was copied from.
    """
    is_silent = step.is_copied_context or (is_measured and step.llm_call_count is None)
    if step.metrics is None and is_silent:
        return 0
    return 1 if step.llm_call_count is None else step.llm_call_count


class _Figures(BaseModel):
    pass


class _Step(BaseModel):
    source: str
    metrics: _Figures | None = None
    llm_call_count: int | None = None
    is_copied_context: bool | None = None


class _Line(BaseModel):
    steps: list[_Step]
    subagent_trajectories: list[_Line] | None = None

    def count(self) -> int:
        is_measured = any(step.metrics for step in self.steps)
        own = (step for step in self.steps if step.source == "agent")
        inner = sum(line.count() for line in self.subagent_trajectories or ())
        return inner + sum(count_calls(step, is_measured=is_measured) for step in own)


def count_in(content: bytes) -> int | None:
    """Return the number of calls of a trajectory.

    Return None if the content is none, or if it has parts in other files.
    """
    if b'"trajectory_path"' in content or b'"continued_trajectory_ref"' in content:
        return None
    try:
        return _Line.model_validate_json(content).count()
    except ValidationError:
        return None
