"""A document as Markdown, for Prefect artifacts and pull requests."""

from collections.abc import Iterable, Iterator

from reports.format import plural
from reports.quoting import make_visible, quote_code, quote_text
from reports.rendering.sections import ReportDocument, Section, Table, Text


def render(document: ReportDocument) -> str:
    """Return the document as Markdown, most important parts first. It ends with a newline."""
    first, *others = document.sections
    parts = [
        f"# {quote_text(document.title)}",
        "\n>\n".join(_audits(document)),
        f"**{quote_text(first.answer)}**" if first.answer else "",
        "\n>\n".join(_notes(document)),
        *_body(first),
        *(part for section in others if section.question for part in _section(section)),
    ]
    return make_visible("\n\n".join(filter(None, parts)) + "\n")


def _audits(document: ReportDocument) -> Iterator[str]:
    for audit in document.audits:
        title = f"Audit `{audit.name}` found {plural(audit.rows, 'row')}:"
        example = quote_code(audit.examples[0])
        yield f"> **{title}** {quote_text(audit.meaning)} For example {example}."


def _notes(document: ReportDocument) -> Iterator[str]:
    for note in document.notes:
        warning = "**Warning:** " if note.level == "warning" else ""
        yield f"> {warning}{quote_text(note.text)}"


def _section(section: Section) -> Iterator[str]:
    """Yield a section, if it has anything for Markdown."""
    parts = [part for part in (quote_text(section.answer), *_body(section)) if part]
    if parts:
        yield f"## {quote_text(section.question)}"
        yield from parts


def _body(section: Section) -> Iterator[str]:
    for table in section.get_tables("markdown"):
        yield f"{quote_text(table.caption)}:" if table.caption else ""
        yield _table(table)
        yield quote_text(table.note)
    yield _list(f"{name}: {value}" for name, value in section.facts)
    yield _list(section.footnotes)


def _list(lines: Iterable[str]) -> str:
    return "\n".join(f"- {quote_text(line)}" for line in lines)


def _table(table: Table) -> str:
    numbers = len(table.header) - table.words - table.remarks
    rule = ["---"] * table.words + ["---:"] * numbers + ["---"] * table.remarks
    rows = (tuple(map(_text, row)) for row in table.rows)
    header = tuple(map(quote_text, table.header))
    return "\n".join(f"| {' | '.join(line)} |" for line in (header, rule, *rows))


def _text(text: Text) -> str:
    if isinstance(text, str):
        return quote_text(text)
    if isinstance(text, tuple):
        return ", ".join(map(_text, text))
    return quote_text(text.text + (f" ({text.quiet})" if text.quiet else ""))
