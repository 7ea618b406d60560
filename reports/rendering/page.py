"""A document as one self-contained HTML page, without external resources or scripts."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template

from reports import format as formats
from reports.quoting import make_visible
from reports.rendering.drawing import SERIES
from reports.rendering.sections import ReportDocument

TEMPLATES = Path(__file__).parent / "templates"

TALL = 25
"""Above this number of rows, a table is in a separate box that scrolls."""

_FILTERS = ("count", "moment", "of", "percent", "plural", "usd")


class Page(Template):
    """A template that renders visible text only, whatever its values hold."""

    def render(self, *values: Any, **named: Any) -> str:
        """Return the page as text, which can be written in UTF-8."""
        return make_visible(super().render(*values, **named))


def environment(*folders: Path) -> Environment:
    """Return an environment that escapes everything, and treats an undefined name as an error.

    Templates are found in these folders first, then in the report's folder.
    """
    templates = Environment(
        loader=FileSystemLoader([*folders, TEMPLATES]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.template_class = Page
    templates.filters.update({name: getattr(formats, name) for name in _FILTERS})
    return templates


def render(document: ReportDocument) -> str:
    """Return the page as HTML text."""
    sections = [section for section in document.sections if section.question]
    return template().render(
        document=document,
        questions=[section for section in sections if not section.is_detail],
        details=[section for section in sections if section.is_detail],
        origins=[origin for section in sections for origin in section.origins],
        notes={
            level: [note for note in document.notes if note.level == level]
            for level in ("warning", "note")
        },
        colours={name: place % SERIES for place, name in enumerate(document.names)},
        tall=TALL,
    )


@cache
def template() -> Template:
    """Return the template of the page, which takes a tenth of a second to compile."""
    return environment().get_template("page.html.j2")
