"""Facts about an attempt in the lake that other formats have no field for."""

import json
from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import AllowInfNan, BaseModel, ConfigDict, Field, ValidationError, field_validator

from eval.types import EvaluationOutcome
from flows.storage.files import restore

KEY = "durabench"
"""The name under which formats with free fields hold these facts."""

Format = Literal["durabench-attempt-1"]
FORMAT: Format = "durabench-attempt-1"

Count = Annotated[int, Field(ge=0)]
Amount = Annotated[float, Field(ge=0), AllowInfNan(False)]
Outcome = Literal[
    "submitted",
    "gave_up",
    "out_of_steps",
    "out_of_budget",
    "out_of_time",
    "infrastructure",
    "refused",
    "budget_stop",
    "waiting",
    "interrupted",
]


class AttemptFacts(BaseModel):
    """The columns of an attempt, its patch and its verdict. None is unknown."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    format: Format = FORMAT
    arm: str = Field(min_length=1)
    agent: str
    model: str
    instance_id: str = Field(min_length=1)
    repeat: int = Field(ge=0, le=100)
    repo: str
    difficulty: str | None = None
    outcome: Outcome
    detail: str
    started_at: datetime | None = None
    duration_s: Amount | None = None
    model_calls: Count | None = None
    unpriced_calls: Count | None = None
    input_tokens: Count | None = None
    cache_read_tokens: Count | None = None
    cache_write_tokens: Count | None = None
    output_tokens: Count | None = None
    reasoning_tokens: Count | None = None
    cost_usd: Amount | None = None
    versions: dict[str, str] = Field(default={})
    patch: str | None = None
    patch_json: str | None = Field(
        default=None, description="a patch that is not UTF-8, as a JSON string"
    )
    verdict: EvaluationOutcome | None = None
    reason: str = Field(default="", description="why the verdict is no plain yes or no")

    @field_validator("patch_json")
    @classmethod
    def _check_json(cls, value: str | None) -> str | None:
        if value is not None and not isinstance(json.loads(value), str):
            raise ValueError("must be a text as JSON")
        return value

    @property
    def exact_patch(self) -> str | None:
        """The patch byte by byte."""
        return None if self.patch is None else restore(self.patch, self.patch_json)


def of_extra(extra: dict[str, Any] | None) -> AttemptFacts | None:
    """Return the facts among the free fields of a format; None if it has none.

    Raises:
        ValueError: the facts are invalid; the message is one line.
    """
    if KEY not in (extra or {}):
        return None
    try:
        return AttemptFacts.model_validate((extra or {})[KEY])
    except ValidationError as error:
        raise ValueError(f"{KEY}.{first_problem(error)}") from None


def first_problem(error: ValidationError) -> str:
    """Return the first problem of a validation as one line."""
    problem = error.errors(include_url=False, include_context=False)[0]
    field = ".".join(map(str, problem["loc"]))
    return f"{field}: {problem['msg']}" if field else str(problem["msg"])
