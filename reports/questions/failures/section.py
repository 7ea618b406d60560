"""Why do attempts fail?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from reports.format import DASH, UNKNOWN, count, percent, plural
from reports.relations import read_rows
from reports.rendering.sections import WRITTEN, Section, Table, TableCell, Text
from reports.steps import FLAW_COLUMNS
from reports.types import FAILURES, FailureExample, Report
from reports.wording import MANY_ARMS, address_of, leading_arms, rank_arms

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

NOTABLE_SHARE = 0.05
"""A terminal only shows flaws of replies if an arm has so many of them."""

_GROUPS: tuple[tuple[str, str, Mapping[Any, str], set[str]], ...] = (
    ("Result of grading", "class", FAILURES, {FAILURES["untold"]}),
    ("Ending reported by the attempt", "ended", ENDINGS, {ENDINGS["unknown"], ENDINGS[None]}),
    ("Progress of the agent", "phase", PHASES, set()),
)
"""Title of a group, its column, the names of its rows, and the names that only repeat the states
of the cells. A group of these alone is left out."""


@dataclass(frozen=True)
class FailureRow:
    """One way to fail."""

    name: str
    cells: tuple[int, ...]
    """Number of cells by arm, in the order of the requested arms."""
    examples: tuple[FailureExample, ...]


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
    tables = [_tabulate(report, group, names) for group in groups]
    replies = _list_replies(report, read_rows(connection, "from marts.reply_counts"))
    tables += replies
    if groups:
        header = (
            *("result of grading", "ending of the attempt", "progress of the agent"),
            *("reason, most often", "cells"),
        )
        ways = tuple(
            (
                row["arm"],
                FAILURES[row["class"]],
                ENDINGS.get(row["ended"], row["ended"]),
                PHASES.get(row["phase"], DASH),
                row["why"] or DASH,
                count(row["cells"]),
            )
            for row in rows
        )
        tables.append(Table("Every way to fail", ("arm", *header), ways, 5))
    text = " ".join(_summarise(report, rows))
    return Section("failures", "Why do attempts fail?", text, tuple(tables))


def group_failures(
    rows: Sequence[Mapping[str, Any]], arms: Sequence[str], examples: Sequence[FailureExample]
) -> tuple[FailureGroup, ...]:
    """Group failures by the grading's finding, the attempt's ending, and its phase if any."""
    groups = []
    for title, column, names, uninformative in _GROUPS:
        cells: Counter[tuple[str, str]] = Counter()
        for row in rows:
            name = names.get(row[column], row[column])
            if name is not None:
                cells[name, row["arm"]] += row["cells"]
        occurring = {name for name, _ in cells}
        if occurring <= uninformative:
            continue
        order = [name for name in names.values() if name in occurring]
        order += sorted(occurring.difference(order))
        kinds = {name: kind for kind, name in FAILURES.items()} if column == "class" else {}
        ways = (
            FailureRow(
                name,
                tuple(cells[name, arm] for arm in arms),
                tuple(example for example in examples if example.kind == kinds.get(name)),
            )
            for name in order
        )
        groups.append(FailureGroup(title, tuple(ways)))
    return tuple(groups)


def _summarise(report: Report, rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    for arm in leading_arms(report):
        failures: Counter[str] = Counter()
        for row in rows:
            if row["arm"] == arm.name:
                failures[FAILURES[row["class"]]] += row["cells"]
        if not failures:
            yield f"{arm.name} leaves no cell unresolved."
            continue
        [(kind, cells)] = failures.most_common(1)
        share = percent(cells / failures.total())
        yield (
            f"{arm.name} leaves {count(failures.total())} of {plural(arm.planned, 'cell')} "
            f"unresolved, most often: {kind} ({count(cells)}, {share})."
        )


def _tabulate(report: Report, group: FailureGroup, arms: Sequence[str]) -> Table:
    """Return the cells by arm, with shares of its unresolved ones. Many arms become rows."""
    failed = {arm.name: arm.planned - arm.resolved for arm in report.arms}
    cells: list[list[Text]] = []
    for row in group.rows:
        texts: list[Text] = []
        for arm, number in zip(arms, row.cells, strict=True):
            share = number / failed[arm] if number else 0.0
            cell = TableCell(count(number), quiet=percent(share), arm=arm, share=share)
            texts.append(cell if number else "0")
        cells.append(texts)
    examples = [tuple(_link(report, example) for example in row.examples) for row in group.rows]
    if len(arms) > MANY_ARMS:
        numbers = (count(failed[arm]) for arm in arms)
        rows = tuple(zip(arms, numbers, *cells, strict=True))
        note = "; ".join(
            f"{row.name}, for example {', '.join(link.text for link in links)}"
            for row, links in zip(group.rows, examples, strict=True)
            if links
        )
        header = ("arm", "not resolved", *(row.name for row in group.rows))
        return Table(group.title, header, rows, note=note)
    has_examples = any(examples)
    unresolved = ", ".join(f"{arm} {count(failed[arm])}" for arm in arms)
    return Table(
        "",
        (group.title, *arms, *(("for example",) if has_examples else ())),
        tuple(
            (row.name, *texts, *((links or "",) if has_examples else ()))
            for row, texts, links in zip(group.rows, cells, examples, strict=True)
        ),
        remarks=int(has_examples),
        note=f"Shares refer to the arm's unresolved cells ({unresolved}). Each cell is counted "
        "once in each group.",
        style="failures",
    )


def _list_replies(report: Report, rows: Sequence[Mapping[str, Any]]) -> list[Table]:
    """Return the flaws of the replies by arm; nothing if no reply is known to have one."""
    by_arm = {row["arm"]: row for row in rows}
    lines, largest = [], 0.0
    for arm in rank_arms(report):
        row = by_arm.get(arm.name)
        if row is None or arm.is_control:
            continue
        flaws = sum(row[column] or 0 for column in FLAW_COLUMNS)
        largest = max(largest, flaws / max(row["replies"] or 0, 1))
        bound = "≥ " if row["unknown_cells"] else ""
        numbers = (row[column] for column in ("replies", *FLAW_COLUMNS))
        texts = (UNKNOWN if number is None else bound + count(number) for number in numbers)
        lines.append((arm.name, *texts))
    header = ("arm", "replies", "empty", "cut off", "no call", "repeated", "refused")
    if not largest:
        return []
    caption = "Replies of the model by their flaws, and requests that its server refused for good"
    return [
        Table(
            caption,
            header,
            tuple(lines),
            on=WRITTEN if largest < NOTABLE_SHARE else ("terminal", *WRITTEN),
        )
    ]


def _link(report: Report, example: FailureExample) -> TableCell:
    text, attempt_id = example.instance_id, example.attempt_id
    if report.source.repeats > 1:
        text += f" #{example.repeat}"
    link = address_of(attempt_id) if attempt_id in report.trajectories else ""
    return TableCell(text, quiet=example.arm, link=link, hint=f"durabench trace {attempt_id}")
