"""Jinja templates, with filters that format numbers."""

from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from reports import format as formats

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


def environment(*folders: Path) -> Environment:
    """Return an environment that escapes everything and treats an undefined name as an error.

    Templates are found in these folders first, then among those of the report.
    """
    made = Environment(
        loader=FileSystemLoader([*folders, TEMPLATES]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters.update({name: getattr(formats, name) for name in _FILTERS})
    return made
