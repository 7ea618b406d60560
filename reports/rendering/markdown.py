"""A report as Markdown, for Prefect artifacts and pull requests."""

from collections.abc import Iterable, Sequence

from reports.analysis import spending
from reports.analysis.differences import read_sides
from reports.analysis.failing import group_failures
from reports.analysis.plans import in_words
from reports.format import (
    UNKNOWN,
    count,
    mean,
    moment,
    of,
    percent,
    plural,
    total,
)
from reports.losses import PURPOSES, Purpose, Spending
from reports.quoting import quote_code, quote_text
from reports.rendering import costs
from reports.rendering.budgets import budget_section
from reports.rendering.effort import effort_section
from reports.rendering.headline import headline
from reports.rendering.instances import instances_section
from reports.rendering.known import count_cells, has_tokens
from reports.rendering.leading import Leading, describe
from reports.rendering.models import models_table
from reports.rendering.order import MANY_ARMS, ranked, ranked_spending
from reports.rendering.pairs import pairs_section
from reports.rendering.resources import resources
from reports.rendering.worth import worth_section
from reports.sections import Section, Table
from reports.types import ArmSummary, Comparison, Provenance, Report
from reports.visible import make_visible

NAMED_INSTANCES = 20
"""Maximum number of instances that a list of differences names."""


def render(report: Report) -> str:
    """Return the report as Markdown, most important parts first. It ends with a newline."""
    sections = [
        f"# {quote_text(report.source.experiment)}",
        _audits(report),
        f"**{quote_text(headline(report))}**",
        _notes(report),
        *_models(report),
        "## Arms",
        _arms(ranked(report)),
        _states(ranked(report)),
        _tokens(ranked(report)) if has_tokens(report.arms) else "",
        *_paired(report),
        *_section(worth_section(report)),
        *(_section(budget_section(report)) if report.budgets else ()),
        *_section(instances_section(report)),
        *_failures(report),
        *(_section(effort) if (effort := effort_section(report)).tables else ()),
        *_spending(report),
        *(_section(pairs) if (pairs := pairs_section(report)) else ()),
        *(text for each in report.sections if each.question for text in _section(each)),
        "## Source",
        _source(report),
    ]
    return make_visible("\n\n".join(filter(None, sections)) + "\n")


def _audits(report: Report) -> str:
    return "\n>\n".join(
        f"> **Audit `{audit.name}` found {plural(audit.rows, 'row')}:** "
        f"{quote_text(audit.meaning)} For example {quote_code(audit.examples[0])}."
        for audit in report.audits
    )


def _notes(report: Report) -> str:
    return "\n>\n".join(
        f"> {'**Warning:** ' if note.level == 'warning' else ''}{quote_text(note.text)}"
        for note in report.notes
    )


def _arms(arms: Sequence[ArmSummary]) -> str:
    header = (
        "arm", "model", "planned", "resolved", "rate", "95 % interval", "cost",
        "cost / instance", "cost / resolved", "calls / instance", "time / instance",
    )  # fmt: skip
    table = _table(header, (_arm_row(arm) for arm in arms), words=2)
    return (
        f"{table}\n\nCost, calls and time per instance are means over the cells that ran, with "
        "their number where it is not that of the planned ones. Cost per resolved divides all "
        "cost of the arm by its resolved cells. A lower bound is marked with ≥."
    )


def _arm_row(arm: ArmSummary) -> tuple[str, ...]:
    return (
        quote_text(arm.name),
        quote_text(arm.model + (f"; from {arm.derived_from}" if arm.derived_from else "")),
        count(arm.planned),
        count(arm.resolved),
        percent(arm.rate),
        f"{percent(arm.interval.low)} to {percent(arm.interval.high)}",
        costs.cost(arm),
        costs.cost_per_cell(arm),
        costs.cost_per_resolved(arm),
        of(mean(arm.mean_calls), arm.cells_with_calls, arm.planned),
        mean(arm.mean_duration_s, " s"),
    )


def span(source: Provenance) -> str:
    """Format the time span of an experiment, from its first attempt to its last activity."""
    if source.first_attempt is None or source.last_activity is None:
        return "at times that are not recorded"
    return f"{moment(source.first_attempt)} to {moment(source.last_activity)}"


def _states(arms: Sequence[ArmSummary]) -> str:
    counts = count_cells(arms)
    rows = (
        (quote_text(arm.name), *(count(cells[arm.name]) for cells in counts.values()))
        for arm in arms
    )
    return _table(("arm", *counts), rows)


def _tokens(arms: Sequence[ArmSummary]) -> str:
    header = ("arm", "input", "of it cached", "cache writes", "output", "of it reasoning")
    rows = (
        (
            quote_text(arm.name),
            *(total(tokens, is_lower_bound) for tokens, is_lower_bound in arm.tokens.sums),
        )
        for arm in arms
    )
    return "Tokens:\n\n" + _table(header, rows)


def _models(report: Report) -> Iterable[str]:
    models = models_table(report)
    if models:
        yield _of_section(models)


def _paired(report: Report) -> Iterable[str]:
    if not report.comparisons:
        return
    first = report.comparisons[0]
    yield f"## {quote_text(first.candidate)} against {quote_text(first.baseline)} ({first.role})"
    yield _two_by_two(first)
    yield from _differences(report)
    leading = describe(report)
    if leading:
        yield from _leading(first, leading)


def _section(section: Section) -> Iterable[str]:
    yield f"## {section.question}"
    yield quote_text(section.answer)
    for table in section.tables:
        yield _of_section(table)
    if section.footnotes:
        yield "\n".join(f"- {quote_text(footnote)}" for footnote in section.footnotes)


def _of_section(table: Table) -> str:
    """Return a table of a section with its caption."""
    rows = (tuple(map(quote_text, row)) for row in table.rows)
    header = tuple(map(quote_text, table.header))
    return f"{quote_text(table.caption)}:\n\n{_table(header, rows, table.words, table.remarks)}"


def _two_by_two(pair: Comparison) -> str:
    table = pair.table
    header = ("", f"{quote_text(pair.candidate)} resolved", "not resolved")
    return _table(
        header,
        (
            (
                f"{quote_text(pair.baseline)} resolved",
                count(table.both),
                count(table.only_baseline),
            ),
            ("not resolved", count(table.only_candidate), count(table.neither)),
        ),
    )


def _leading(pair: Comparison, leading: Leading) -> Iterable[str]:
    """Yield tables of the pair's numbers, and below them the methods."""
    header = ("value", "95 % interval", "over", "method")
    for group in leading.groups:
        rows = (
            (quote_text(line.name), line.value, line.interval, line.over, line.method)
            for line in group.lines
        )
        if group.lines:
            yield _table((group.title, *header), rows, remarks=2)
    yield "\n".join(f"- {quote_text(footnote)}" for footnote in leading.footnotes)


def _differences(report: Report) -> Iterable[str]:
    """Yield the instances that only one of the two arms resolved."""
    for side in read_sides(report):
        only = list(dict.fromkeys(one.instance_id for one in side.shown))
        if only:
            named = ", ".join(quote_code(instance) for instance in only[:NAMED_INSTANCES])
            more = side.cells - sum(one.instance_id in only[:NAMED_INSTANCES] for one in side.shown)
            rest = f" and {plural(more, 'more cell')}" if more else ""
            yield f"Only {quote_text(side.winner)}: {named}{rest}."


def _failures(report: Report) -> Iterable[str]:
    """Yield tables of all kinds of failure, counted by arm. Many arms become rows."""
    arms = [arm.name for arm in ranked(report)]
    groups = group_failures(report, arms)
    if not groups:
        return
    yield "## Why attempts fail"
    named = [quote_text(arm) for arm in arms]
    for group in groups:
        if len(arms) > MANY_ARMS:
            header = [group.title, *(row.name for row in group.rows)]
            by_arm = zip(named, *(map(count, row.cells) for row in group.rows), strict=True)
            yield _table(header, by_arm)
        else:
            rows = ((row.name, *map(count, row.cells)) for row in group.rows)
            yield _table((group.title, *named), rows)


def _spending(report: Report) -> Iterable[str]:
    """Yield a table of the bills and their purposes."""
    if not any(one.attempts for one in report.spending):
        return
    yield "## How much was wasted"
    if nothing := spending.nothing_spent(report.spending):
        yield nothing
        return
    rows = (
        (
            quote_text(one.arm),
            spending.billed(one),
            spending.credited(one),
            *(_part(one, purpose) for purpose in PURPOSES),
        )
        for one in ranked_spending(report)
    )
    yield _table(("arm", "billed", "credited", *PURPOSES.values()), rows)


def _part(one: Spending, purpose: Purpose) -> str:
    share = spending.share(one, purpose) if one.parts[purpose] else ""
    return spending.part(one, purpose) + (f" ({share})" if share else "")


def _source(report: Report) -> str:
    source = report.source
    versions = ", ".join(f"{name} {version}" for name, version in source.versions.items())
    facts = {
        "Dataset": f"{source.dataset} (rows {source.dataset_digest})",
        "Planned": f"{plural(source.instances, 'instance')} × {plural(source.repeats, 'repeat')}",
        "Declared": f"{moment(source.declared_at)} (declaration {source.declaration_digest})",
        "Comparisons declared": in_words(source.plan),
        "Ran": span(source),
        "Environment": source.environment,
        **({"Resources": resources(source)} if source.resources else {}),
        "Versions": versions or UNKNOWN,
    }
    return "\n".join(f"- {name}: {quote_text(value)}" for name, value in facts.items())


def _table(
    header: Sequence[str], rows: Iterable[Sequence[str]], words: int = 1, remarks: int = 0
) -> str:
    """Return a table. All columns but the first `words` and the last `remarks` are numbers."""
    numbers = len(header) - words - remarks
    rule = ["---"] * words + ["---:"] * numbers + ["---"] * remarks
    lines = [header, rule, *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
