"""Templates with the filters that show numbers."""

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


def environment() -> Environment:
    """Everything is escaped, and a name that is not there is an error."""
    made = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters.update({name: getattr(formats, name) for name in _FILTERS})
    return made
