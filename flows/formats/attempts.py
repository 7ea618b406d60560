"""One model of an attempt for every format: facts, and steps of ATIF. None is unknown."""

from __future__ import annotations

import json
import math
import stat
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    AllowInfNan,
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    field_validator,
)

from eval.types import EvaluationOutcome
from flows.display.errors import UsageError
from flows.formats import table_columns
from flows.storage.files import copy_exactly, make_readable, restore
from flows.storage.lake import Row
from reports.columns import TABLES

if TYPE_CHECKING:
    from atif import Step  # takes a tenth of a second

KEY = "durabench"
"""The name under which formats with free fields hold the facts of an attempt."""

Format = Literal["durabench-attempt-1"]
FORMAT: Format = "durabench-attempt-1"

TOKENS = tuple(name for name in TABLES["llm_calls"].schema.names if name.endswith("_tokens"))
"""The columns of tokens."""

MOST_BYTES = 2**30
"""Upper limit of the size of a file that is read at once."""

Count = Annotated[int, Field(ge=0, lt=table_columns.MOST)]


def _check_name(name: str) -> str:
    if not all(map(str.isprintable, name.split(" "))):
        raise ValueError("must not have control characters")
    return name


Name = Annotated[str, AfterValidator(_check_name)]
Amount = Annotated[float, Field(ge=0), AllowInfNan(False)]
Ended = Literal[
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
    "unknown",
]
"""Outcomes, and `unknown` of a table that states none."""

LOST: frozenset[Ended] = frozenset(
    {"infrastructure", "refused", "budget_stop", "interrupted", "waiting"}
)
"""Outcomes that other systems call an error of the trial or sample."""


class AttemptFacts(BaseModel):
    """The columns of an attempt, its patch and its verdict."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    format: Format = FORMAT
    arm: Name | None = Field(default=None, min_length=1, description="None if the file names none")
    agent: Name
    model: Name = Field(description="`unknown`, or `none` for an agent without one")
    instance_id: Name = Field(min_length=1)
    repeat: int | None = Field(default=None, ge=0, le=table_columns.MOST_REPEATS)
    repo: Name
    difficulty: str | None = None
    outcome: Ended
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
    reason: str = Field(default="", description="explains an unusual verdict")
    reward: Annotated[float, AllowInfNan(False)] | None = Field(
        default=None, description="of a Harbor task"
    )

    @field_validator("detail", "reason", mode="before")
    @classmethod
    def _read_text(cls, value: Any) -> Any:
        return make_readable(value) if isinstance(value, str) else value

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


@dataclass(frozen=True)
class ExchangedAttempt:
    """One attempt, read from a file or from a lake."""

    facts: AttemptFacts
    source: str
    """The file, for messages; the experiment of an attempt in a lake."""
    digest: str | None
    """Digest of the file's content, or the id of an attempt in a lake. None for an attempt that its
    patch identifies, as in a predictions file."""
    lines: Mapping[str, Sequence[Step]] = field(default_factory=dict)
    """Steps by scope. The main line is "", and a subagent in it has the path of its name."""
    version: str = ""
    """The release of the agent; empty if unknown."""
    order: tuple[str, ...] = ()
    """Numbers the attempts at a cell that do not state their number."""
    tests: Mapping[str, list[str]] = field(default_factory=dict)
    """Results of tests by column of `evaluations`; empty if they are unknown."""
    graded_by: str = "unknown"
    """The grader."""
    program: str = ""
    """The name of an external program that is the agent; empty for others, and if unknown."""
    settings: Mapping[str, str] = field(default_factory=dict)
    """Conditions of the run that must be the same in all arms, such as its time limit, by name."""
    job: str = ""
    """The run of another system that made it, which names its arm if nothing else does. Empty if
    unknown."""

    @property
    def model(self) -> str | None:
        """The model; None if there is none or it is unknown."""
        return None if self.facts.model in ("none", "unknown") else self.facts.model


@dataclass(frozen=True)
class ReadFiles:
    """The attempts of files."""

    attempts: Sequence[ExchangedAttempt]
    dataset: str
    """Name of the dataset in reports."""
    planned: Sequence[str] = ()
    """Further instances that were to be tried."""
    dataset_digest: str | None = None
    """None for a dataset that is known by the names of its instances only."""


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


def to_extra(facts: AttemptFacts) -> dict[str, Any]:
    """Return facts as a free field of a format."""
    return {KEY: facts.model_dump(mode="json", exclude_none=True)}


def describe(source: str, usage: Row, **facts: Any) -> AttemptFacts:
    """Return the facts of an attempt that a file describes. A patch is given byte by byte.

    Raises:
        UsageError: a fact cannot be used.
    """
    patch = facts.pop("patch", None)
    texts: Row = {} if patch is None else {"patch": make_readable(patch)}
    try:
        copy = None if patch is None else copy_exactly(patch)
        return AttemptFacts(**usage, **facts, **texts, patch_json=copy)
    except ValidationError as error:
        raise UsageError(f"{source}: {first_problem(error)}") from None


def first_problem(error: ValidationError) -> str:
    """Return the first problem of a validation as one line."""
    problem = error.errors(include_url=False, include_context=False)[0]
    place = ".".join(map(str, problem["loc"]))
    return f"{place}: {problem['msg']}" if place else str(problem["msg"])


def read_content(path: Path) -> bytes:
    """Return the bytes of a file.

    Raises:
        UsageError: it cannot be read, is not a file, or is larger than `MOST_BYTES`.
    """
    try:
        found = path.stat()
        if not stat.S_ISREG(found.st_mode):  # a pipe would be read for ever
            raise UsageError(f"{path} is not a file: put the file itself in its place")
        if found.st_size > MOST_BYTES:
            raise UsageError(f"{path} is larger than {MOST_BYTES // 2**30} GiB")
        return path.read_bytes()
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from None


def sum_usage(
    calls: Iterable[tuple[Row, int]], tokens: Mapping[str, int | None], cost_usd: float | None
) -> Row:
    """Return the usage of an attempt by column: what its file states in total, else sums of calls.

    `calls` has the rows of `llm_calls`, each with the number of calls that it counts. A stated cost
    of 0 is unknown if there are calls, and none of them has a known cost.
    """
    counted = list(calls)
    priced = [row["cost_usd"] for row, _ in counted if row["cost_usd"] is not None]
    unpriced: int | None = sum(count for row, count in counted if row["cost_usd"] is None)
    if cost_usd == 0 and counted and not priced:
        cost_usd = None
    if cost_usd is not None and not math.isclose(cost_usd, sum(priced), abs_tol=1e-6):
        unpriced = None  # the calls in the total are unknown
    if cost_usd is None and (priced or not counted):
        cost_usd = sum(priced)
    summed = {name: total(row[name] for row, _ in counted) for name in TOKENS}
    stated = {name: count for name, count in tokens.items() if count is not None}
    return {
        "model_calls": sum(count for _, count in counted),
        "unpriced_calls": unpriced,
        **summed,
        **stated,
        "cost_usd": cost_usd,
    }


def total(counts: Iterable[int | None]) -> int | None:
    """Return the sum; None if one of them is unknown."""
    numbers = list(counts)
    return None if None in numbers else sum(number or 0 for number in numbers)


def amount(value: float | None, what: str) -> float | None:
    """Return a cost or a duration.

    Raises:
        ValueError: it is negative, infinite or not a number.
    """
    if value is not None and not 0 <= value < table_columns.MOST:
        raise ValueError(f"{what} is {value}, and must be at least 0")
    return value


def count(value: Any, what: str) -> int | None:
    """Return a number of tokens.

    Raises:
        ValueError: it is negative or not a whole number.
    """
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < table_columns.MOST:
        raise ValueError(f"{what} is {value!r}, and must be a whole number of at least 0")
    return value
