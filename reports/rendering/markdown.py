"""A document as Markdown, for Prefect artifacts and pull requests."""

from collections.abc import Iterator

from reports.format import plural
from reports.quoting import make_visible, quote_code, quote_text
from reports.rendering.sections import ReportDocument, Section, Text


def render(document: ReportDocument) -> str:
    """Return the document as Markdown, most important parts first. It ends with a newline."""
    first, *others = document.sections
    audits = [
        f"> **Audit `{audit.name}` found {plural(audit.rows, 'row')}:** "
        f"{quote_text(audit.meaning)} For example {quote_code(audit.examples[0])}."
        for audit in document.audits
    ]
    notes = [
        ("> **Warning:** " if note.level == "warning" else "> ") + quote_text(note.text)
        for note in document.notes
    ]
    parts = [
        f"# {quote_text(document.title)}",
        "\n>\n".join(audits),
        f"**{quote_text(first.answer)}**" if first.answer else "",
        "\n>\n".join(notes),
        *_body(first),
    ]
    for section in others:
        content = [quote_text(section.answer), *_body(section)]
        if section.question and any(content):
            parts += [f"## {quote_text(section.question)}", *content]
    return make_visible("\n\n".join(filter(None, parts)) + "\n")


def _body(section: Section) -> Iterator[str]:
    for table in section.get_tables("markdown"):
        yield f"{quote_text(table.caption)}:" if table.caption else ""
        numbers = len(table.header) - table.words - table.remarks
        rule = ["---"] * table.words + ["---:"] * numbers + ["---"] * table.remarks
        rows = (tuple(map(_text, row)) for row in table.rows)
        header = tuple(map(quote_text, table.header))
        yield "\n".join(f"| {' | '.join(line)} |" for line in (header, rule, *rows))
        yield quote_text(table.note)
    for lines in ([f"{name}: {value}" for name, value in section.facts], section.footnotes):
        yield "\n".join(f"- {quote_text(line)}" for line in lines)


def _text(text: Text) -> str:
    if isinstance(text, str):
        return quote_text(text)
    if isinstance(text, tuple):
        return ", ".join(map(_text, text))
    return quote_text(text.text + (f" ({text.quiet})" if text.quiet else ""))
