"""A comparison for a pull request: its verdict, a comment in Markdown, and JUnit XML."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal
from xml.etree.ElementTree import Element, SubElement, tostring

from flows.display.errors import GateFailed, UsageError
from flows.storage.whole_files import write_whole
from reports.estimates import LEVEL
from reports.format import percent, plural, point_limits, points
from reports.types import Comparison, Report, ReportCell

if TYPE_CHECKING:
    from upath import UPath

Requirement = Literal["better", "not-worse", "no-loss"]

LONGEST_COMMENT = 60_000
"""Characters. A forge refuses longer comments."""

_TRIED = frozenset({"resolved", "unresolved", "no_patch", "patch_failed", "timeout"})
"""States of cells with a result."""

_NOT_OF_XML = {code: "\ufffd" for code in range(32) if code not in (9, 10, 13)}


@dataclass(frozen=True)
class MetRequirement:
    """The result of a requirement."""

    requirement: Requirement
    holds: bool
    text: str

    def check(self) -> None:
        """Raise GateFailed unless the requirement holds."""
        if not self.holds:
            raise GateFailed(self.text)


def judge(report: Report, requirement: Requirement) -> MetRequirement:
    """Return whether the leading comparison meets a requirement.

    Raises:
        UsageError: no pair of arms was compared, or no margin was declared.
    """
    pair = next(iter(report.comparisons), None)
    if pair is None:
        raise UsageError(f"--require {requirement} needs two arms that were compared")
    if requirement == "not-worse" and report.non_inferiority is None:
        raise UsageError("--require not-worse needs --margin, such as 0.05")
    holds, meaning = _test(pair, report, requirement)
    return MetRequirement(
        requirement,
        holds,
        f"{requirement} {'holds' if holds else 'does not hold'}: {meaning} "
        f"(difference {points(pair.table.difference)} points, 95 % interval "
        f"{point_limits(pair.interval)})",
    )


def _test(pair: Comparison, report: Report, requirement: Requirement) -> tuple[bool, str]:
    names = f"{pair.candidate} against {pair.baseline}"
    is_shown, gain = pair.p_value < LEVEL, pair.table.difference
    if requirement == "better":
        holds = is_shown and gain > 0
        return holds, f"{names} is {'' if holds else 'not '}shown to be better"
    if requirement == "no-loss":
        holds = not (is_shown and gain < 0)
        return holds, f"{names} is {'not ' if holds else ''}shown to be worse"
    margin = report.non_inferiority
    assert margin is not None, "the margin was declared"
    shown = "" if margin.is_shown else "not "
    return margin.is_shown, f"{names} is {shown}shown not to be worse by {percent(margin.margin)}"


def cut_comment(text: str, page: "Path | UPath", verdict: MetRequirement | None) -> str:
    """Return Markdown of at most `LONGEST_COMMENT` characters, which says how much is left out."""
    lines = ([f"**{verdict.text}**", ""] if verdict else []) + text.splitlines()
    limit, size = LONGEST_COMMENT - len(str(page)) - 200, 0
    for number, line in enumerate(lines):
        size += len(line) + 1
        if size > limit:
            left_out = plural(len(lines) - number, "more line")
            return "\n".join([*lines[:number], "", f"{left_out}: {page}", ""])
    return "\n".join([*lines, ""])


def write_junit(report: Report, verdict: MetRequirement | None, path: Path) -> None:
    """Write the pairs of the leading comparison as test cases, and the requirement as one.

    An instance that only the baseline resolves is a skipped case, since chance loses some. Only
    the requirement can fail.

    Raises:
        UsageError: the file cannot be written.
    """
    if not path.absolute().parent.is_dir():
        raise UsageError(f"{path} cannot be written: the folder {path.parent} is missing")
    suites = Element("testsuites")
    if verdict:
        suite = SubElement(suites, "testsuite", name="durabench requirement")
        case = SubElement(suite, "testcase", classname="require", name=verdict.requirement)
        if not verdict.holds:
            SubElement(case, "failure", message=_clean(verdict.text))
    for pair in report.comparisons[:1]:
        suite = SubElement(suites, "testsuite", name=f"{pair.candidate} against {pair.baseline}")
        for name, remark in _list_pairs(report, pair):
            case = SubElement(suite, "testcase", classname=pair.candidate, name=_clean(name))
            if remark:
                SubElement(case, "skipped", message=_clean(remark))
    for suite in suites:
        for count in ("failure", "skipped"):
            name = "failures" if count == "failure" else count
            suite.set(name, str(len(suite.findall(f"testcase/{count}"))))
        suite.set("tests", str(len(suite)))
    write_whole(path, tostring(suites, encoding="utf-8", xml_declaration=True))


def _list_pairs(report: Report, pair: Comparison) -> Iterator[tuple[str, str]]:
    """Yield the name of each pair of cells, and why it does not count as passed."""
    cells = defaultdict[tuple[str, int], dict[str, ReportCell]](dict)
    for cell in report.cells:
        cells[cell.instance_id, cell.repeat][cell.arm] = cell
    for (instance, repeat), arms in cells.items():
        if not {pair.baseline, pair.candidate} <= arms.keys():
            continue
        before, after = arms[pair.baseline], arms[pair.candidate]
        remark = ""
        if not {before.state, after.state} <= _TRIED:
            remark = f"no result: {before.state} and {after.state}"
        elif before.state == "resolved" and after.state != "resolved":
            remark = f"lost: resolved by {pair.baseline}, {after.state} now"
        yield f"{instance} #{repeat}" if repeat else instance, remark


def _clean(text: str) -> str:
    return text.translate(_NOT_OF_XML)
