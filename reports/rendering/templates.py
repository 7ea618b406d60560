"""Jinja templates, with filters that format numbers."""

from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template

from reports import format as formats
from reports.visible import make_visible

TEMPLATES = Path(__file__).parents[1] / "templates"

_FILTERS = (
    "percent",
    "points",
    "usd",
    "p_value",
    "ratio",
    "mean",
    "count",
    "of",
    "total",
    "plural",
    "moment",
)


class Page(Template):
    """A template that renders visible text only, whatever its values hold."""

    def render(self, *values: Any, **named: Any) -> str:
        """Return the page as text, which can be written in UTF-8."""
        return make_visible(super().render(*values, **named))


def environment(*folders: Path) -> Environment:
    """Return an environment that escapes everything, and treats an undefined name as an error.

    Templates are found in these folders first, then among those of the report.
    """
    made = Environment(
        loader=FileSystemLoader([*folders, TEMPLATES]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.template_class = Page
    made.filters.update({name: getattr(formats, name) for name in _FILTERS})
    return made
