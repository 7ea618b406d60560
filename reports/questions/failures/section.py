"""Why do attempts fail?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from reports.format import DASH, count, percent, plural
from reports.relations import read_rows
from reports.rendering.sections import Section, Table, TableCell, Text
from reports.types import FAILURES, FailureExample, Report
from reports.wording import MANY_ARMS, address_of, leading_arms, name_instance, rank_arms

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

ENDINGS: Mapping[str | None, str] = {
    "submitted": "submitted a patch",
    "gave_up": "gave up",
    "out_of_steps": "out of steps",
    "out_of_time": "out of time",
    "out_of_budget": "out of its own budget",
    "budget_stop": "stopped by a budget",
    "interrupted": "interrupted",
    "waiting": "waits for a person",
    "infrastructure": "infrastructure",
    "refused": "its image failed the preflight",
    "unknown": "not stated",
    None: "never run",
}
"""Every way in which an attempt itself reports its end (`attempts.outcome`)."""

PHASES: Mapping[str | None, str] = {
    "not_reproduced": "not reproduced",
    "blocked": "reproduced, then blocked",
    "out_of_turns": "reproduced, then out of turns",
    "out_of_limits": "reproduced, then out of calls or money",
    "unverified": "ended unverified",
    "rejected": "rejected by its own checks",
    "accepted_unreproduced": "accepted, never reproduced",
    "accepted": "accepted by its own checks",
}
"""Progress of an arm with phases, as the arm itself reports it."""

_GROUPS: tuple[tuple[str, str, Mapping[Any, str], set[str]], ...] = (
    ("Result of grading", "class", FAILURES, {FAILURES["untold"]}),
    ("Ending reported by the attempt", "ended", ENDINGS, {ENDINGS["unknown"], ENDINGS[None]}),
    ("Progress of the agent", "phase", PHASES, set()),
)
"""Title of a group, its column, the names of its rows, and those that say no more than the states
of the cells. A group of these alone is left out."""


@dataclass(frozen=True)
class FailureRow:
    """One way to fail."""

    name: str
    cells: tuple[int, ...]
    """Number of cells by arm, in the order of the arms that were asked for."""
    examples: tuple[FailureExample, ...] = ()


@dataclass(frozen=True)
class FailureGroup:
    """The failures of all arms, classified in one way. Each cell is in one row.

    The classification by phase has only the cells of arms with phases.
    """

    title: str
    rows: tuple[FailureRow, ...]
    """Rows of the kinds that occur."""


def answer(connection: DuckDBPyConnection, report: Report) -> Section | None:
    """Return tables of all kinds of failure. Return None if cells failed and no reason is known."""
    names = [arm.name for arm in rank_arms(report)]
    rows = [
        row for row in read_rows(connection, "from marts.failure_counts") if row["arm"] in names
    ]
    groups = group_failures(rows, names, report.failures)
    if rows and not groups:
        return None
    return Section(
        "failures",
        "Why do attempts fail?",
        " ".join(_summarise(report, rows)),
        (
            *(_table(report, group, names) for group in groups),
            *((_list_ways(rows),) if groups else ()),
        ),
    )


def group_failures(
    rows: Sequence[Mapping[str, Any]], arms: Sequence[str], examples: Sequence[FailureExample]
) -> tuple[FailureGroup, ...]:
    """Group failures by the grading's finding, the attempt's ending, and its phase if any."""
    found = []
    for title, column, names, untold in _GROUPS:
        cells: Counter[tuple[str, str]] = Counter()
        for row in rows:
            name = names.get(row[column], row[column])
            if name is not None:
                cells[name, row["arm"]] += row["cells"]
        occurring = {name for name, _ in cells}
        if occurring <= untold:
            continue
        order = [name for name in names.values() if name in occurring]
        order += sorted(occurring.difference(order))
        kinds = {name: kind for kind, name in FAILURES.items()} if column == "class" else {}
        found.append(
            FailureGroup(
                title,
                tuple(
                    FailureRow(
                        name,
                        tuple(cells[name, arm] for arm in arms),
                        tuple(each for each in examples if each.kind == kinds.get(name)),
                    )
                    for name in order
                ),
            )
        )
    return tuple(found)


def _summarise(report: Report, rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    for arm in leading_arms(report):
        failed: Counter[str] = Counter()
        for row in rows:
            if row["arm"] == arm.name:
                failed[FAILURES[row["class"]]] += row["cells"]
        if not failed:
            yield f"{arm.name} leaves no cell unresolved."
            continue
        [(kind, cells)] = failed.most_common(1)
        yield (
            f"{arm.name} leaves {count(failed.total())} of {plural(arm.planned, 'cell')} "
            f"unresolved, most often: {kind} ({count(cells)}, {percent(cells / failed.total())})."
        )


def _table(report: Report, group: FailureGroup, arms: Sequence[str]) -> Table:
    """Return the cells by arm, with shares of its unresolved ones. Many arms become rows."""
    failed = {arm.name: arm.planned - arm.resolved for arm in report.arms}
    shown = [[_share(arm, n, failed[arm]) for arm, n in zip(arms, row.cells, strict=True)]
             for row in group.rows]  # fmt: skip
    examples = [tuple(_link(report, each) for each in row.examples) for row in group.rows]
    if len(arms) > MANY_ARMS:
        rows = zip(arms, (count(failed[arm]) for arm in arms), *shown, strict=True)
        header = ("arm", "not resolved", *(row.name for row in group.rows))
        named = zip(group.rows, examples, strict=True)
        note = "; ".join(
            f"{row.name}, for example {', '.join(each.text for each in some)}"
            for row, some in named
            if some
        )
        return Table(group.title, header, tuple(map(tuple, rows)), note=note)
    has_examples = any(examples)
    unresolved = ", ".join(f"{arm} {count(failed[arm])}" for arm in arms)
    rows_of_kinds = tuple(
        (row.name, *cells, *((some or "",) if has_examples else ()))
        for row, cells, some in zip(group.rows, shown, examples, strict=True)
    )
    return Table(
        "",
        (group.title, *arms, *(("for example",) if has_examples else ())),
        rows_of_kinds,
        remarks=int(has_examples),
        note=f"Shares refer to the arm's unresolved cells ({unresolved}). Each cell is counted "
        "once in each group.",
        style="failures",
    )


def _share(arm: str, cells: int, failed: int) -> Text:
    if not cells:
        return "0"
    share = cells / failed
    return TableCell(count(cells), quiet=percent(share), arm=arm, share=share)


def _link(report: Report, example: FailureExample) -> TableCell:
    name = name_instance(report, example.instance_id, example.repeat)
    text = name if isinstance(name, str) else f"{example.instance_id} #{example.repeat}"
    attempt_id = example.attempt_id
    link = address_of(attempt_id) if attempt_id in report.trajectories else ""
    return TableCell(text, quiet=example.arm, link=link, hint=f"durabench trace {attempt_id}")


def _list_ways(rows: Sequence[Mapping[str, Any]]) -> Table:
    return Table(
        "Every way to fail",
        ("arm", "result of grading", "ending of the attempt", "progress of the agent", "cells"),
        tuple(
            (
                row["arm"],
                FAILURES[row["class"]],
                ENDINGS.get(row["ended"], row["ended"]),
                PHASES.get(row["phase"], DASH),
                count(row["cells"]),
            )
            for row in rows
        ),
        4,
        on=("page",),
    )
