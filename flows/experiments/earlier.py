"""Attempts that earlier runs of an experiment began, by what the journal recorded of them.

An attempt is that of a cell if it was begun for the same task by the same agent and model: the key
of what was recorded is its id, and what was recorded is what the declaration asks for now. How its
models were reached is compared no more, so keys of earlier releases are found as well.
"""

import json
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Self

from agent.arms import ARMS
from agent.journal import Attempt
from agent.journal.watching import Watched
from flows.display.errors import UsageError
from flows.experiments.cells import Cell, EarlierAttempt
from flows.experiments.keys import (
    agent_spec,
    agent_version,
    declared_key,
    id_of_key,
    key_of,
    spec_in_key,
)
from flows.storage.journals import existing_journal
from flows.storage.lake import Lake


@dataclass(frozen=True)
class Match:
    """An attempt that is that of a cell, and its key."""

    key: str
    found: Watched

    @property
    def rank(self) -> tuple[bool, int, str]:
        """Order of the attempts at one cell: one that has ended before others, then by steps."""
        return self.found.has_ended, self.found.steps, self.found.attempt.attempt_id

    @property
    def earlier(self) -> EarlierAttempt:
        """What the cell needs to continue it."""
        return EarlierAttempt(self.key, self.found.attempt.spec)


class EarlierAttempts:
    """The attempts of one experiment in a lake and its journal, for the cells of one plan."""

    def __init__(self, attempts: Sequence[Watched], filed: Collection[str] = ()) -> None:
        """Use `read`. `filed` are the ids of the attempts that have rows in the lake."""
        self.by_arm = defaultdict[str, list[Watched]](list)
        self._at = defaultdict[tuple[str, str, int], list[Watched]](list)
        for each in attempts:
            one = each.attempt
            self.by_arm[one.arm].append(each)
            self._at[one.arm, one.instance_id, one.repeat].append(each)
        self._lake_only = {*filed} - {each.attempt.attempt_id for each in attempts}
        self._matches: dict[tuple[str, str, int], list[Match]] = {}
        self._agrees: dict[tuple[str, str], bool] = {}

    @classmethod
    def read(cls, lake: Lake, experiment: str) -> Self:
        """Read the attempts of an experiment, in two queries regardless of their number.

        Raises:
            UsageError: the configured journal is not that of the lake.
            JournalError: the journal cannot be opened.
        """
        journal = existing_journal(lake)
        attempts = journal.watching.attempts([experiment]) if journal else []
        return cls(attempts, lake.units("attempts", "*", experiment))

    def at(self, cell: Cell) -> Sequence[Watched]:
        """Return all attempts of the cell's arm at its instance and repeat."""
        return self._at.get((cell.arm.name, cell.instance.instance_id, cell.repeat), ())

    def resume(self, cell: Cell) -> Cell:
        """Return the cell with the attempts that it and its bases continue.

        Every worker chooses the same ones: only the chosen attempt of a cell gets further steps.
        """
        if not self._at and not self._lake_only:
            return cell
        earlier: dict[str, EarlierAttempt] = {}
        one: Cell | None = cell
        while one is not None:
            chosen = max(self.matches(one), key=lambda match: match.rank, default=None)
            found = self._in_lake(one) if chosen is None else chosen.earlier
            if found is not None:
                earlier[one.arm.name] = found
            one = one.base
        return replace(cell, earlier=earlier)

    def _in_lake(self, cell: Cell) -> EarlierAttempt | None:
        """Return an attempt of an earlier release that only the lake knows: its journal is lost.

        It is found only while its model is reached as then.
        """
        key = declared_key(cell, as_in_0_1=True) if self._lake_only else ""
        if id_of_key(key) not in self._lake_only:
            return None
        return EarlierAttempt(key, json.dumps(agent_spec(cell, as_in_0_1=True), sort_keys=True))

    def matches(self, cell: Cell) -> list[Match]:
        """Return the attempts that are those of a cell."""
        there = self.at(cell)
        if not there:
            return []
        place = (cell.arm.name, cell.instance.instance_id, cell.repeat)
        if place not in self._matches:
            self._matches[place] = self._found(cell, there)
        return self._matches[place]

    def _found(self, cell: Cell, there: Sequence[Watched]) -> list[Match]:
        own = declared_key(cell)
        bases = self._keys(cell.base)
        found = []
        for each in there:
            is_own = each.attempt.attempt_id == id_of_key(own)
            key = own if is_own else self._earlier_key(cell, each.attempt, bases)
            if key is not None:
                found.append(Match(key, each))
        return found

    def _keys(self, base: Cell | None) -> Mapping[str, str] | None:
        """Return the keys of the attempts of a base by their ids; None without a base."""
        if base is None:
            return None
        return {match.found.attempt.attempt_id: match.key for match in self.matches(base)}

    def _earlier_key(
        self, cell: Cell, attempt: Attempt, bases: Mapping[str, str] | None
    ) -> str | None:
        """Return the key of an attempt if it is one of the cell, otherwise None."""
        base = None if bases is None else bases.get(attempt.parent_id or "")
        if (bases is not None and base is None) or not self._is_declared(cell, attempt.spec):
            return None
        key = key_of(cell, read_spec(attempt.spec), base)
        return key if id_of_key(key) == attempt.attempt_id else None

    def _is_declared(self, cell: Cell, spec: str) -> bool:
        """Return True if an agent is the one that a cell declares. Most cells share theirs."""
        known = (cell.arm.name, spec)
        if known not in self._agrees:
            self._agrees[known] = spec_in_key(read_spec(spec), cell) == agent_spec(cell)
        return self._agrees[known]


def resume_attempts(cells: Sequence[Cell], lake: Lake) -> list[Cell]:
    """Return cells of one experiment with the attempts that they continue.

    Raises:
        UsageError: the configured journal is not that of the lake.
        JournalError: the journal cannot be opened.
    """
    known = EarlierAttempts.read(lake, cells[0].experiment.name)
    return [known.resume(cell) for cell in cells]


def refuse_outdated(cells: Sequence[Cell], known: EarlierAttempts) -> None:
    """Check that no arm of an experiment has attempts by an earlier version of its agent.

    Those at whose places the present version has one already count no more.

    Raises:
        UsageError: running the cells would buy such attempts again.
    """
    arms = {cell.arm.name: cell.arm for cell in cells}
    for name, arm in arms.items():
        version = ARMS[arm.agent].version
        mine = [
            (each.attempt, agent_version(spec))
            for each in known.by_arm.get(name, ())
            if (spec := read_spec(each.attempt.spec)).get("agent") == arm.agent
        ]
        done = {_place(attempt) for attempt, made_by in mine if made_by >= version}
        old = [number for one, number in mine if number < version and _place(one) not in done]
        if old:
            experiment = cells[0].experiment.name
            raise UsageError(
                f"experiment {experiment!r} has attempts of arm {name!r} by version {max(old)} of "
                f"the {arm.agent} agent, and this is version {version}: `durabench report "
                f"{experiment}` shows them; to buy the cells again, run the experiment under "
                "another name"
            )


def _place(attempt: Attempt) -> tuple[str, int]:
    return attempt.instance_id, attempt.repeat


@lru_cache(maxsize=256)
def read_spec(spec: str) -> Mapping[str, Any]:
    """Return agent and environment of an attempt as the journal has them."""
    found: Mapping[str, Any] = json.loads(spec)
    return found
