"""The sources of noise in the leading comparison, and the instances that separate arms."""

from __future__ import annotations

import json
from collections.abc import Iterator
from math import inf
from typing import TYPE_CHECKING

from reports.estimates import Split
from reports.format import listing, percent, plural
from reports.relations import read_rows
from reports.rendering.sections import Row, Section, Table
from reports.types import Comparison, Pair, Report

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

TITLE = "Where does the noise come from?"

BIAS = (
    "This choice favours differences: arms differ more on such instances than on all, and some of "
    "them were chosen by chance and will separate arms less next time. A result on them holds for "
    "them only, never as the rate of the whole set, and the attempts that chose them are not "
    "evidence on them."
)


def answer(connection: DuckDBPyConnection, report: Report) -> Section | None:
    """Return the parts of the variance, and advice for who plans another experiment.

    Without repeats in the leading comparison, there is the advice alone or nothing.
    """
    proposal = _propose_instances(connection)
    pair, split = next(iter(report.comparisons), None), report.split
    if pair is None or split is None:
        return Section("noise", "", "", advice=proposal) if proposal else None
    grading, patches = _read_gradings(connection, (pair.baseline, pair.candidate))
    rows = tuple(_list_parts(split, grading))
    line = _summarise(pair, split, rows)
    title = "Variance of the paired difference at one cell"
    table = Table(title, ("part", "variance", "share", "falls with"), rows, remarks=1)
    return Section(
        "noise",
        TITLE,
        line,
        (table,),
        tuple(_footnotes(None if grading is None else patches)),
        is_detail=True,
        brief=(line,),
        advice=(
            "Repeats or more instances? For the same number of cells, instances are never worse. "
            + line,
            *proposal,
        ),
    )


def _read_gradings(connection: DuckDBPyConnection, arms: Pair) -> tuple[float | None, int]:
    """Return the variance of the paired difference between gradings, and the patches behind it.

    Two gradings of a patch differ with a probability of twice the variance of one of them. The
    variances of both arms add up. It is None if no patch of one arm was graded more than once.
    """
    rows = read_rows(connection, "from marts.gradings")
    flips = [[row["is_flipped"] for row in rows if row["arm"] == arm] for arm in arms]
    variance = sum(sum(arm) / len(arm) / 2 for arm in flips) if all(flips) else None
    return variance, sum(map(len, flips))


def _propose_instances(connection: DuckDBPyConnection) -> tuple[str, ...]:
    """Return the instances that separate arms as a selection, and the bias. Empty without any."""
    rows = read_rows(connection, "from marts.telling_instances")
    if not rows:
        return ()
    ids = json.dumps([row["instance_id"] for row in rows], ensure_ascii=False)
    attempts = plural(max(row["attempts"] for row in rows), "attempt")
    return (
        f"{plural(len(rows), 'instance')} of which 30 to 70 % of up to {attempts} were resolved "
        f"separate arms best. {BIAS}\nselect: {{ids: {ids}}}",
    )


def _list_parts(split: Split, grading: float | None) -> Iterator[Row]:
    def row(part: str, variance: float, falls_with: str) -> Row:
        return part, f"{variance:.3f}", percent(variance / split.total), falls_with

    yield row("instances", split.between, "more instances")
    if grading is None:
        yield row("runs, gradings included", split.within, "more instances or repeats")
        return
    grading = min(grading, split.within)
    yield row("runs", split.within - grading, "more instances or repeats")
    yield row("gradings", grading, "more instances or repeats, or a grader that does not flip")


def _summarise(pair: Comparison, split: Split, rows: tuple[Row, ...]) -> str:
    """Return the shares, and the gain from more instances or repeats."""

    def error(instances: int, repeats: float) -> str:
        return f"{100 * split.standard_error(instances, repeats):.1f}"

    shares = listing([f"{share} is between {part}" for part, _, share, _ in rows])
    n = pair.leads.instances
    r = pair.table.pairs // n
    return (
        f"Of the variance of the paired difference at one cell, {shares}. With "
        f"{plural(n, 'instance')} and {plural(r, 'repeat')} the standard error is {error(n, r)} "
        f"points; with twice the instances it would be {error(2 * n, r)}, with twice the repeats "
        f"{error(n, 2 * r)}, and with any number of repeats at least {error(n, inf)}."
    )


def _footnotes(graded_again: int | None) -> Iterator[str]:
    yield (
        "Parts of the variance: moment estimates of a one-way model with random effects, where a "
        "part below 0 counts as 0 (Searle, Casella and McCulloch 1992, Variance Components; Miller "
        "2024, arXiv:2411.00640). They are rough where instances are few. The standard error of "
        "the difference is the root of (variance between instances + rest / repeats) / instances."
    )
    yield (
        "For the same number of cells, further instances are never worse than repeats: repeats do "
        "not reduce the part between instances."
    )
    if graded_again is not None:
        yield (
            "Gradings: half of the share of patches with another verdict at a second grading, "
            f"added over both arms, from {plural(graded_again, 'patch', 'patches')}."
        )
