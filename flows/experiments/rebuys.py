"""Cells that a run buys again because their declaration has changed, and what has changed."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agent.journal import Attempt
from flows.experiments.cells import Cell
from flows.experiments.earlier import EarlierAttempts, read_spec
from flows.experiments.keys import CELL_KEY_FIELDS, agent_spec, id_of_key, key_of, spec_in_key
from flows.storage.lake import Lake
from reports.format import plural

_SHOWN_CHANGES = 4
_SHOWN_CHARACTERS = 40
_NAME_ONLY = ("extra", "settings")
"""Fields with content of any kind, such as headers, whose values are not printed."""


@dataclass(frozen=True)
class Rebuy:
    """Cells of an arm that have attempts, and are bought again for the same reason."""

    arm: str
    cells: int
    changes: tuple[str, ...]

    def __str__(self) -> str:
        more = len(self.changes) - _SHOWN_CHANGES
        shown = ", ".join([*self.changes[:_SHOWN_CHANGES], *([f"{more} more"] if more > 0 else [])])
        return (
            f"{plural(self.cells, 'cell')} of arm {self.arm} with earlier attempts "
            f"{'is' if self.cells == 1 else 'are'} bought again: {shown}"
        )


def rebuys(cells: Sequence[Cell], known: EarlierAttempts, lake: Lake) -> list[Rebuy]:
    """Return the cells that have attempts, but none that the declaration asks for now."""
    changed = [cell for cell in cells if known.at(cell) and not known.matches(cell)]
    if not changed:
        return []
    before = _declared_before(changed[0].experiment.name, lake)
    found = Counter((cell.arm.name, _changes(cell, known, before)) for cell in changed)
    return [Rebuy(arm, count, changes) for (arm, changes), count in found.items()]


def _declared_before(experiment: str, lake: Lake) -> list[Mapping[str, Any]]:
    """Return the fields of recorded declarations that are part of a key, each combination once."""
    found: list[Mapping[str, Any]] = []
    for row in lake.rows("experiments", experiment):
        declared = json.loads(row["declaration"])
        fields = {name: declared[name] for name in CELL_KEY_FIELDS if name in declared}
        if fields not in found:
            found.append(fields)
    return found


def _changes(
    cell: Cell, known: EarlierAttempts, before: Sequence[Mapping[str, Any]]
) -> tuple[str, ...]:
    """Return the changes since the attempt that is most like what is declared now."""
    found = [_changes_since(each.attempt, cell, before) for each in known.at(cell)]
    return min(found, key=lambda changes: (len(changes), changes))


def _changes_since(
    attempt: Attempt, cell: Cell, before: Sequence[Mapping[str, Any]]
) -> tuple[str, ...]:
    recorded = read_spec(attempt.spec)
    changes = [*_differences(spec_in_key(recorded, cell), agent_spec(cell))]
    for fields in before:
        if id_of_key(key_of(cell, recorded, None, fields)) == attempt.attempt_id:
            now = {name: getattr(cell.experiment, name) for name in fields}
            return (*changes, *_differences(fields, now))
    if not changes:
        changes = [f"its base {cell.arm.base}"] if cell.base is not None else ["the task itself"]
    return tuple(changes)


def _differences(old: Any, new: Any, path: str = "") -> Iterator[str]:
    """Yield the fields whose values differ, each with both values."""
    if old == new:
        return
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for name in dict.fromkeys([*old, *new]):
            inner = f"{path}.{name}" if path else str(name)
            yield from _differences(old.get(name), new.get(name), inner)
    elif any(part in _NAME_ONLY for part in path.split(".")):
        yield path
    else:
        yield f"{path} {_shown(old)} -> {_shown(new)}"


def _shown(value: Any) -> str:
    """Return a value in a few characters of one line."""
    text = "none" if value is None else json.dumps(value)
    is_long = len(text) > _SHOWN_CHARACTERS
    return f"{text[: _SHOWN_CHARACTERS - 3]}..." if is_long else text
