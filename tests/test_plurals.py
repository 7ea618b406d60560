"""A number in a sentence of the program has its noun in singular or plural.

`reports.format.plural` does that. The number of other places only falls: lower `MOST`.
"""

import ast
import itertools
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

MOST = 19
"""The largest number of counts with a fixed plural. They are always above 1."""

_COUNT = re.compile(r"(len|count|sum)\(")
_PLURAL = re.compile(r" (more |[a-z]+ )?[a-z]+s\b")


def list_fixed_plurals() -> Iterator[str]:
    """Yield each f-string in which a count is followed by a noun that is always plural."""
    for package in ("flows", "reports"):
        for path in sorted((ROOT / package).rglob("*.py")):
            for text in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                parts = text.values if isinstance(text, ast.JoinedStr) else []
                for value, after in itertools.pairwise(parts):
                    if (
                        isinstance(value, ast.FormattedValue)
                        and isinstance(after, ast.Constant)
                        and _COUNT.match(ast.unparse(value.value))
                        and _PLURAL.match(str(after.value))
                    ):
                        yield f"{path.relative_to(ROOT)}:{value.lineno}:{after.value}"


def test_a_count_of_1_has_a_singular() -> None:
    """No sentence says `1 cells`."""
    places = list(list_fixed_plurals())
    assert len(places) <= MOST, "\n".join(places)
