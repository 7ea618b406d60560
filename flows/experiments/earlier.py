"""Attempts of earlier runs of an experiment, as the journal recorded them.

An attempt belongs to a cell if it was started for the same task by the same agent and model: its id
is the key of its recorded agent, and the declaration still asks for that agent. The way in which
models are reached is not compared, so keys of earlier releases are found as well.
"""

import json
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Self

from agent.arms import ARMS
from agent.journal.watching import Watched
from flows.display.errors import UsageError
from flows.experiments.cells import Cell, EarlierAttempt
from flows.experiments.keys import (
    agent_spec,
    agent_version,
    get_declared_key,
    id_of_key,
    key_of,
    spec_in_key,
)
from flows.storage.journals import existing_journal
from flows.storage.lake import Lake


@dataclass(frozen=True)
class Match:
    """An attempt that belongs to a cell, and its key."""

    key: str
    watched: Watched

    @property
    def rank(self) -> tuple[bool, int, str]:
        """Order of the attempts at one cell: ended ones are preferred, then by steps."""
        return self.watched.has_ended, self.watched.steps, self.watched.attempt.attempt_id


class EarlierAttempts:
    """The attempts of one experiment in a lake and its journal, for the cells of one plan."""

    def __init__(self, attempts: Sequence[Watched], filed: Collection[str] = ()) -> None:
        """Use `read`. `filed` are the ids of the attempts that have rows in the lake."""
        self.by_arm = defaultdict[str, list[Watched]](list)
        self._at = defaultdict[tuple[str, str, int], list[Watched]](list)
        for watched in attempts:
            attempt = watched.attempt
            self.by_arm[attempt.arm].append(watched)
            self._at[attempt.arm, attempt.instance_id, attempt.repeat].append(watched)
        self._lake_only = {*filed} - {watched.attempt.attempt_id for watched in attempts}
        self._matches: dict[tuple[str, str, int], list[Match]] = {}
        self._is_declared: dict[tuple[str, str], bool] = {}
        """By arm and recorded agent, True if the arm declares that agent."""

    @classmethod
    def read(cls, lake: Lake, experiment: str) -> Self:
        """Read the attempts of an experiment, in two queries regardless of their number.

        Raises:
            UsageError: the configured journal does not belong to the lake.
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
        ancestor: Cell | None = cell
        while ancestor is not None:
            if matches := self.matches(ancestor):
                match = max(matches, key=lambda match: match.rank)
                spec = match.watched.attempt.spec
                earlier[ancestor.arm.name] = EarlierAttempt(match.key, spec)
            elif self._lake_only:
                # The journal of an earlier release can be lost. The attempt is found only if its
                # model is still reached in the same way.
                key = get_declared_key(ancestor, as_in_0_1=True)
                if id_of_key(key) in self._lake_only:
                    spec = json.dumps(agent_spec(ancestor, as_in_0_1=True), sort_keys=True)
                    earlier[ancestor.arm.name] = EarlierAttempt(key, spec)
            ancestor = ancestor.base
        return replace(cell, earlier=earlier)

    def matches(self, cell: Cell) -> list[Match]:
        """Return the attempts that belong to a cell."""
        attempts = self.at(cell)
        if not attempts:
            return []
        place = (cell.arm.name, cell.instance.instance_id, cell.repeat)
        if place not in self._matches:
            self._matches[place] = list(self._find_matches(cell, attempts))
        return self._matches[place]

    def _find_matches(self, cell: Cell, attempts: Sequence[Watched]) -> Iterator[Match]:
        key = get_declared_key(cell)
        bases: dict[str | None, str] | None = None
        if cell.base is not None:  # the keys of its attempts by their ids
            bases = {
                match.watched.attempt.attempt_id: match.key for match in self.matches(cell.base)
            }
        for watched in attempts:
            attempt = watched.attempt
            if attempt.attempt_id == id_of_key(key):
                yield Match(key, watched)
                continue
            base = None if bases is None else bases.get(attempt.parent_id)
            if bases is not None and base is None:
                continue
            declaration = (cell.arm.name, attempt.spec)
            if declaration not in self._is_declared:  # most cells of an arm share their agent
                recorded = spec_in_key(read_spec(attempt.spec), cell)
                self._is_declared[declaration] = recorded == agent_spec(cell)
            if self._is_declared[declaration]:
                earlier_key = key_of(cell, read_spec(attempt.spec), base)
                if id_of_key(earlier_key) == attempt.attempt_id:
                    yield Match(earlier_key, watched)


def resume_attempts(cells: Sequence[Cell], lake: Lake) -> list[Cell]:
    """Return cells of one experiment with the attempts that they continue.

    Raises:
        UsageError: the configured journal does not belong to the lake.
        JournalError: the journal cannot be opened.
    """
    earlier = EarlierAttempts.read(lake, cells[0].experiment.name)
    return [earlier.resume(cell) for cell in cells]


def refuse_outdated(cells: Sequence[Cell], earlier: EarlierAttempts) -> None:
    """Check that no arm of an experiment has attempts by an earlier version of its agent.

    An old attempt does not count if the present version already has one at the same place.

    Raises:
        UsageError: running the cells would buy such attempts again.
    """
    arms = {cell.arm.name: cell.arm for cell in cells}
    for name, arm in arms.items():
        version = ARMS[arm.agent].version
        attempts = [
            ((watched.attempt.instance_id, watched.attempt.repeat), agent_version(spec))
            for watched in earlier.by_arm.get(name, ())
            if (spec := read_spec(watched.attempt.spec)).get("agent") == arm.agent
        ]
        current = {place for place, number in attempts if number >= version}
        old = [number for place, number in attempts if number < version and place not in current]
        if old:
            experiment = cells[0].experiment.name
            raise UsageError(
                f"experiment {experiment!r} has attempts of arm {name!r} by version {max(old)} of "
                f"the {arm.agent} agent, and this is version {version}: `durabench report "
                f"{experiment}` shows them; to buy the cells again, run the experiment under "
                "another name"
            )


@lru_cache(maxsize=256)
def read_spec(spec: str) -> Mapping[str, Any]:
    """Return agent and environment of an attempt as the journal has them."""
    content: Mapping[str, Any] = json.loads(spec)
    return content
