"""Where does the noise come from?"""

from __future__ import annotations

import json
from collections.abc import Iterator
from math import inf

from reports.format import count, listing, percent, plural
from reports.noise import Noise, Split
from reports.rendering.sections import Section, Table
from reports.types import Report

TITLE = "Where does the noise come from?"

BIAS = (
    "This choice favours differences: arms differ more on such instances than on all, and some of "
    "them are here by chance and will tell less next time. A result on them holds for them only, "
    "never as the rate of the whole set, and the attempts that chose them are no evidence on them."
)


def noise_section(report: Report) -> Section | None:
    """Return the answer, or None without repeats in the leading comparison."""
    noise = report.noise
    if noise.split is None:
        return None
    table = Table(
        "Variance of the paired difference at one cell",
        ("part", "variance", "share", "falls with"),
        tuple(_rows(noise, noise.split)),
        remarks=1,
    )
    answer = noise_line(noise)
    return Section("noise", TITLE, answer, (table,), tuple(_footnotes(noise)))


def noise_line(noise: Noise) -> str:
    """Return the shares, and what more instances or repeats gain; empty without repeats."""
    split = noise.split
    if split is None:
        return ""
    shares = listing([f"{share} is between {part}" for part, _, share, _ in _rows(noise, split)])
    n, r = noise.instances, noise.repeats
    return (
        f"Of the variance of the paired difference at one cell, {shares}. With "
        f"{plural(n, 'instance')} and {plural(r, 'repeat')} the standard error is "
        f"{_points(split, n, r)} points; with twice the instances it would be "
        f"{_points(split, 2 * n, r)}, with twice the repeats {_points(split, n, 2 * r)}, and with "
        f"any number of repeats at least {_points(split, n, inf)}."
    )


def repeats_or_instances(noise: Noise) -> str:
    """Return what a planned experiment gains by each; empty without repeats."""
    line = noise_line(noise)
    question = "Repeats or more instances? For the same number of cells, instances are never worse."
    return f"{question} {line}" if line else ""


def telling_line(noise: Noise) -> str:
    """Return the instances that tell arms apart as a selection, and the bias; empty without any."""
    if not noise.telling:
        return ""
    ids = json.dumps(noise.telling, ensure_ascii=False)
    return (
        f"{plural(len(noise.telling), 'instance')} of which 30 to 70 % of up to "
        f"{plural(noise.runs, 'attempt')} were resolved tell arms apart best. {BIAS}\n"
        f"select: {{ids: {ids}}}"
    )


def _points(split: Split, instances: int, repeats: float) -> str:
    return f"{100 * split.standard_error(instances, repeats):.1f}"


def _rows(noise: Noise, split: Split) -> Iterator[tuple[str, str, str, str]]:
    def row(part: str, variance: float, falls_with: str) -> tuple[str, str, str, str]:
        return part, f"{variance:.3f}", percent(variance / split.total), falls_with

    yield row("instances", split.between, "more instances")
    if noise.grading is None:
        yield row("runs, gradings included", split.within, "more instances or repeats")
        return
    grading = min(noise.grading, split.within)
    yield row("runs", split.within - grading, "more instances or repeats")
    yield row("gradings", grading, "more instances or repeats, or a grader that does not flip")


def _footnotes(noise: Noise) -> Iterator[str]:
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
    if noise.grading is not None:
        yield (
            "Gradings: half of the share of patches with another verdict at a second grading, "
            f"added over both arms, from {count(noise.graded_again)} patches."
        )
