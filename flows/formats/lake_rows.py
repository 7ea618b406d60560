"""Rows of attempts and gradings of other systems."""

import math
import re
from collections.abc import Mapping
from datetime import datetime

from eval.types import EvaluationOutcome
from flows.storage.lake import Row
from reports.columns import TABLES

_WITH_REPOSITORY = re.compile(r"([^_/].*?)__(.+)-[0-9]+")
"""Instance ids of SWE-bench, which are made of a repository and a number."""


def repository(instance_id: str) -> str:
    """Return the repository named in a SWE-bench instance id; empty for any other id."""
    match = _WITH_REPOSITORY.fullmatch(instance_id)
    return f"{match[1]}/{match[2]}" if match else ""


def get_metered_usd(cost_usd: float | None, model_calls: int | None) -> float | None:
    """Return a cost in USD; None if it is unknown, as a 0 is unless no call was made."""
    return None if cost_usd == 0 and model_calls != 0 else cost_usd


def attempt_columns(cell: Row, repo: str, *, agent: str, model: str, provider: str) -> Row:
    """Return the columns of `attempts` of an import. What is not given is unknown."""
    return {
        **dict.fromkeys(TABLES["attempts"].schema.names),
        **cell,
        "repo": repo,
        "agent": agent,
        "model": model,
        "provider": provider,
        "environment": "imported",
        "seed": 0,
        "image": "",
    }


def bare_attempt_row(
    cell: Row,
    repo: str,
    *,
    model: str,
    detail: str,
    started_at: datetime | None = None,
    cost_usd: float | None = None,
    model_calls: int | None = None,
) -> Row:
    """Return the row of an attempt without individual calls; `model_calls` may be known."""
    return {
        **attempt_columns(cell, repo, agent="imported", model=model, provider="none"),
        "outcome": "submitted",
        "detail": detail,
        "started_at": started_at,
        "model_calls": model_calls,
        "cost_usd": cost_usd,
        "versions": "{}",
    }


def evaluation_row(
    cell: Row,
    outcome: EvaluationOutcome,
    *,
    harness_version: str,
    reason: str = "",
    reward: float | None = None,
    patch_sha256: str = "",
    tests: Mapping[str, list[str]] | None = None,
) -> Row:
    """Return the row of an external verdict. `tests` holds test lists by column."""
    lists = ("fail_to_pass", "pass_to_pass")
    columns = [f"{which}_{result}" for which in lists for result in ("success", "failure")]
    return {
        **dict.fromkeys(TABLES["evaluations"].schema.names),
        **cell,
        "patch_sha256": patch_sha256,
        "environment": "imported",
        "outcome": outcome,
        "resolved": outcome == "resolved",
        "reason": reason,
        "reward": reward,
        "audit_reasons": [],
        "gradings": 1,
        **{column: (tests or {}).get(column, []) for column in columns},
        "log_tail": "",
        "harness_version": harness_version,
        "timeout_s": math.nan,
    }
