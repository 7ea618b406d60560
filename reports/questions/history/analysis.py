"""Runs of one experiment over time: those under its name, and under its name with a date.

A schedule files each run under a separate name, such as `nightly-20260301t020000`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from reports.analysis.paired import read_arms
from reports.errors import ReportError
from reports.estimates import Interval
from reports.lake import list_experiments, near
from reports.relations import open_marts, read_rows
from reports.series import series_of
from reports.statistics.paired import PairedTest, count_pairs, instance_leads
from reports.types import ArmSummary

if TYPE_CHECKING:
    from upath import UPath

LATEST = 60
"""Number of runs that a history shows."""

Place = tuple[str, int]
"""An instance and a repeat."""


@dataclass(frozen=True)
class DatedRun:
    """One run of a series."""

    experiment: str
    began: datetime | None
    """Start of its first attempt, or the time of its declaration, in UTC. None for an import that
    does not state when it was run."""
    declared_at: datetime
    """Time of its declaration or import, in UTC."""
    contents: object
    """Equal for runs of the same instances with the same contents. The contents of an import are
    not known, and only its instances count."""
    arms: tuple[ArmSummary, ...]
    cells: Mapping[str, Mapping[Place, bool]]
    """By arm, whether each planned cell was resolved."""


@dataclass(frozen=True)
class RateChange:
    """The difference between the rates of an arm in two runs, later less earlier."""

    difference: float
    """As a share."""
    interval: Interval
    p_value: float


@dataclass(frozen=True)
class History:
    """The runs of a series, the oldest first."""

    name: str
    runs: tuple[DatedRun, ...]

    @property
    def arms(self) -> tuple[str, ...]:
        """Names of all arms, in order of their first run."""
        return tuple(dict.fromkeys(arm.name for run in self.runs for arm in run.arms))

    @property
    def other_instances(self) -> tuple[str, ...]:
        """Names of the runs with other instances than the latest, or with other contents."""
        return tuple(run.experiment for run in self.runs if run.contents != self.runs[-1].contents)

    def before(self, experiment: str) -> DatedRun | None:
        """Return the run before this one, on the same instances; None if there is none."""
        names = [run.experiment for run in self.runs]
        place = names.index(experiment)
        return next(self._alike(place), None)

    def change(self, place: int, arm: str) -> RateChange | None:
        """Return the change of an arm since the run before the one at `place`.

        That is the last one on the same instances that has the arm. The test is the test of two
        arms of one experiment, over the cells that both runs plan. Return None without any.
        """
        run = next((run for run in self._alike(place) if arm in run.cells), None)
        if run is None:
            return None
        before, after = run.cells[arm], self.runs[place].cells[arm]
        cells = sorted(before.keys() & after.keys())
        if not cells:
            return None
        first, second = [before[cell] for cell in cells], [after[cell] for cell in cells]
        table = count_pairs(first, second)
        test = PairedTest(table, instance_leads([name for name, _ in cells], first, second))
        return RateChange(table.difference, test.interval(), test.p_value())

    def _alike(self, place: int) -> Iterator[DatedRun]:
        """Yield the runs before the one at `place` on the same instances, the latest first."""
        contents = self.runs[place].contents
        return (run for run in reversed(self.runs[:place]) if run.contents == contents)


def run_names(lake: Path | UPath, experiment: str) -> list[str]:
    """Return the names of the runs of the series that an experiment belongs to, sorted.

    Raise ReportError for a missing lake.
    """
    name = series_of(experiment)
    return sorted(run for run in list_experiments(lake) if series_of(run) == name)


def read_history(lake: Path | UPath, experiment: str) -> History:
    """Read the latest runs of the series that an experiment belongs to.

    A run without a whole declaration is left out. Raise ReportError for a missing lake and an
    unknown series.
    """
    name, names = series_of(experiment), run_names(lake, experiment)
    if not names:
        raise ReportError(f"no run of {name!r} in {lake}; {near(name, list_experiments(lake))}")
    runs = _read(lake, names[-LATEST:])
    return History(
        name, tuple(sorted(runs, key=lambda run: (run.began or run.declared_at, run.experiment)))
    )


def _read(lake: Path | UPath, experiments: Sequence[str]) -> Iterator[DatedRun]:
    connection = open_marts(lake, experiments, ("arms", "arm_states", "source"))
    try:
        cells: defaultdict[str, dict[str, dict[Place, bool]]] = defaultdict(dict)
        query = "select experiment, arm, instance_id, repeat, state = 'resolved' from marts.cells"
        for experiment, arm, instance, repeat, is_resolved in connection.execute(query).fetchall():
            cells[experiment].setdefault(arm, {})[instance, repeat] = is_resolved
        arms = read_arms(connection)
        for row in read_rows(connection, "from marts.source"):
            name = row["experiment"]
            yield DatedRun(
                name,
                _find_start(row),
                row["declared_at_utc"],
                _identify_contents(row),
                arms.get(name, ()),
                cells[name],
            )
    finally:
        connection.close()


def _find_start(source: Mapping[str, Any]) -> datetime | None:
    """Return when a run began. An import that names no time has none."""
    began: datetime | None = source["first_attempt_utc"]
    if began is None and source["environment"] != "imported" and not _is_part(source):
        return cast(datetime, source["declared_at_utc"])
    return began


def _identify_contents(source: Mapping[str, Any]) -> object:
    if source["environment"] == "imported":
        return frozenset(source["instance_ids"])
    if _is_part(source):
        return source["dataset_digest"], frozenset(source["instance_ids"])
    return source["dataset_digest"]


def _is_part(source: Mapping[str, Any]) -> bool:
    """Return True if the run was decided before all of its instances were tried."""
    return bool(len(source["instance_ids"]) < source["declared_instances"])
