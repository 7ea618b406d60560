"""Lakes with any number of arms whose names are as long as those of published submissions."""

from collections.abc import Mapping, Sequence
from typing import Any

from tests.reports.lake_fixture import LakeBuilder, attempt_row, evaluation_row

LONG = 46
"""Length of the names."""

IMPORTED: dict[str, Any] = {
    "environment": "imported",
    **dict.fromkeys(
        (
            "started_at",
            "duration_s",
            "billed_usd",
            "cost_usd",
            "model_calls",
            "unpriced_calls",
            "input_tokens",
            "cache_read_tokens",
            "cache_write_tokens",
            "output_tokens",
            "reasoning_tokens",
        )
    ),
}
"""Columns of an attempt of which only the verdict is known."""

VERDICT: dict[str, Any] = {"environment": "imported", "started_at": None, "duration_s": None}


def arm_name(number: int) -> str:
    """Return a name of `LONG` characters that differs from the others in the middle."""
    return f"20250{number:03d}_agent-{number:03d}_with_a_long_model_name-v4".ljust(LONG, "x")


def declare(lake: LakeBuilder, arms: int, instances: int, repeats: int = 1) -> Sequence[str]:
    """Declare so many arms and instances of four repositories. Return the arms' names."""
    names = [arm_name(number) for number in range(arms)]
    lake.declare(names, instance_ids(instances), repeats=repeats, environment="imported")
    return names


def instance_ids(instances: int) -> list[str]:
    """Return so many ids of four repositories."""
    return [f"made__up{number % 4}-{1000 + number}" for number in range(instances)]


def verdicts(
    lake: LakeBuilder,
    arm: str,
    resolved: Sequence[bool],
    costs: Sequence[float | None] | None = None,
    ids: Sequence[str] | None = None,
    each: Mapping[str, Sequence[Any]] | None = None,
) -> None:
    """Write one attempt and one grading per instance, in two files.

    `each` has the values of further columns, instance by instance.
    """
    ids = ids or instance_ids(len(resolved))
    cells = [{"attempt_id": f"{arm}/{name}", "instance_id": name} for name in ids]
    amounts = {"cost_usd": costs or [None] * len(cells), **(each or {})}
    attempts = [
        attempt_row(
            **{**IMPORTED, **cell, "repo": repository(cell["instance_id"])}
            | {name: values[place] for name, values in amounts.items()}
        )
        for place, cell in enumerate(cells)
    ]
    lake.write("attempts", arm, attempts)
    graded = [
        evaluation_row(**cell, **VERDICT, resolved=is_, outcome="resolved" if is_ else "unresolved")
        for cell, is_ in zip(cells, resolved, strict=True)
    ]
    lake.write("evaluations", arm, graded)


def repository(instance: str) -> str:
    """Return the repository of an instance with an ordinary id."""
    return instance.rpartition("-")[0].replace("__", "/")


def fill(lake: LakeBuilder, arms: int, instances: int, *, priced: bool) -> Sequence[str]:
    """Write arms of which each resolves more than the one before. Return their names."""
    names = declare(lake, arms, instances)
    for number, arm in enumerate(names):
        least = (number + 1) * instances // (arms + 1)
        verdicts(
            lake,
            arm,
            [(n * 7) % instances < least for n in range(instances)],
            [0.01 * (number + 1) * (1 + n % 7) for n in range(instances)] if priced else None,
        )
    return names
