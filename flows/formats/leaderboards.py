"""The public leaderboards of SWE-bench in one JSON file, as rows of a table."""

import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from pydantic import BaseModel, ValidationError

from flows.display.errors import UsageError
from flows.formats.attempts import first_problem

_BEGINNING = re.compile(rb'\s*\{\s*"leaderboards"')

_MODEL = "Model: "


class _Cell(BaseModel):
    resolved: bool | None = None
    cost: float | None = None
    api_calls: float | None = None


class _Entry(BaseModel):
    name: str
    cost: float | None = None
    tags: list[str] | None = None
    per_instance_details: dict[str, _Cell] | None = None

    @property
    def model(self) -> str | None:
        """The model of which the entry has a tag; None without one, and with several."""
        models = [tag.removeprefix(_MODEL) for tag in self.tags or () if tag.startswith(_MODEL)]
        return models[0] if len(models) == 1 else None


class _Leaderboard(BaseModel):
    name: str
    results: list[_Entry]


class _Leaderboards(BaseModel):
    leaderboards: list[_Leaderboard]


def flatten(path: Path, content: bytes) -> bytes:
    """Return leaderboards as a JSON list of rows, and any other content as it is.

    The published total of an entry is in `total_cost`. Entries without results of instances are
    left out. The leaderboard is added to a name that several of them have.

    Raises:
        UsageError: the leaderboards cannot be used.
    """
    text = content.removeprefix(b"\xef\xbb\xbf")
    if path.suffix.lower() != ".json" or not _BEGINNING.match(text):
        return content
    try:
        boards = _Leaderboards.model_validate_json(text).leaderboards
    except ValidationError as error:
        problem = first_problem(error)
        raise UsageError(f"{path}: not leaderboards of SWE-bench ({problem})") from None
    rows = list(_list_rows(boards))
    if not rows:
        raise UsageError(f"{path}: no leaderboard has results of instances")
    return json.dumps(rows).encode()


def _list_rows(boards: list[_Leaderboard]) -> Iterator[dict[str, object]]:
    entries = [(board.name, entry) for board in boards for entry in board.results]
    names = Counter(entry.name for _, entry in entries if entry.per_instance_details)
    for board, entry in entries:
        arm = f"{entry.name} ({board})" if names[entry.name] > 1 else entry.name
        for instance_id, cell in (entry.per_instance_details or {}).items():
            row = {"arm": arm, "model": entry.model, "instance_id": instance_id}
            yield row | {"total_cost": entry.cost} | cell.model_dump()
