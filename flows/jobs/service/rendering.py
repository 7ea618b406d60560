"""Templates of the pages, in the style of the report."""

from functools import cache
from pathlib import Path
from typing import Any

from fastapi.responses import HTMLResponse
from jinja2 import Environment

from reports.rendering.templates import TEMPLATES, environment

FOLDER = Path(__file__).parent

PLACES = (
    ("/ui/jobs", "Jobs"),
    ("/ui/new", "New job"),
    ("/ui/pipelines", "Pipelines"),
    ("/ui/experiments", "Experiments"),
)
"""The pages that every page leads to."""


@cache
def _environment() -> Environment:
    return environment(FOLDER / "templates")


@cache
def style() -> str:
    """Return the style of the report and of the pages."""
    parts = (TEMPLATES / "page.css", FOLDER / "static" / "service.css")
    return "\n".join(part.read_text(encoding="utf-8") for part in parts)


def page(name: str, place: str = "", status: int = 200, **content: Any) -> HTMLResponse:
    """Return a page. `place` is the path of the page in the navigation that it belongs to."""
    from prefect.settings import PREFECT_UI_URL

    template = _environment().get_template(f"{name}.html.j2")
    shown = template.render(
        places=PLACES, place=place, prefect_ui=PREFECT_UI_URL.value(), **content
    )
    return HTMLResponse(shown, status)


def problem(status: int, message: str) -> HTMLResponse:
    """Return a page that says what went wrong."""
    return page("problem", status=status, code=status, message=message)
