"""`durabench prune`: list or remove data that is no longer needed.

steps      the journal's steps of ended attempts with rows in the lake; their outcomes and
           bills are kept
rows       of ended attempts: compacted, so that a table and arm has one file for many cells
bodies     payload files in content-addressed storage that no step refers to
reports    pages that `durabench report` writes again
files      leftovers of killed writers, and cached Prefect results of missing rows
images     images pulled or built for the lake that have not been needed recently
mirrors    copies of the repositories of jobs that no job has used recently
artifacts  on the Prefect server, all versions of each but the latest

Results are kept, unless the operator names an experiment to be removed completely. Rows are removed
before the files that they refer to, so that the state is consistent whenever a prune is stopped.
"""

import asyncio
import json
import os
import re
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Literal, TypeVar, get_args

from rich.filesize import decimal

from agent.errors import Interrupted, LeaseHeld
from agent.journal import Holding, Journal
from agent.workspaces import janitor
from flows.display.errors import UsageError
from flows.display.terminal import show
from flows.operation import caches
from flows.operation.caches import Pruned, show_progress
from flows.operation.compaction import Compaction, find_ended
from flows.storage import retention
from flows.storage.journals import VARIABLE, existing_journal, was_run
from flows.storage.lake import Lake
from flows.storage.retention import RemovableFile
from reports.format import UNKNOWN, plural
from reports.lake import list_experiments, matching, near

Kind = Literal["steps", "rows", "bodies", "reports", "files", "images", "mirrors", "artifacts"]

_OF_THE_LAKE: tuple[Kind, ...] = get_args(Kind)
_OF_AN_EXPERIMENT: tuple[Kind, ...] = ("steps", "rows", "bodies", "artifacts")

_NO_JOURNAL = f"the journal is missing; set {VARIABLE} to use another"
_WRITING = "an attempt is running, or its worker died within the last day"

_HOURS = {"h": 1, "d": 24}

T = TypeVar("T")


@dataclass(frozen=True)
class PruneRequest:
    """The data to prune, and whether to remove it or only to list it."""

    age: timedelta
    """Minimum time since the last activity."""
    experiment: str | None
    """Restrict to this experiment. Payloads belong to no experiment and are removed in either
    case."""
    results: bool
    """Remove the experiment completely."""
    kinds: tuple[Kind, ...]
    remove: bool


def prune(
    lake_path: str | None,
    older_than: str,
    experiment: str | None,
    only: list[str],
    *,
    results: bool,
    remove: bool,
) -> None:
    """Print removable data and its size by kind, and remove it if requested.

    Raises:
        UsageError, ReportError: the request is invalid.
        InfrastructureError: the journal or the Prefect server failed; earlier kinds are removed.
        Interrupted: the operator stopped it; the remaining data is consistent.
    """
    wanted = _make_request(older_than, experiment, only, results, remove)
    lake = Lake.existing(lake_path)
    with lake.reading():
        declared = list_experiments(lake.root)
    freed = 0
    try:
        for tally in _Pruning(lake, declared, existing_journal(lake), wanted).tallies():
            size = f": {decimal(tally.size_bytes)}" if tally.size_bytes else ""
            show(f"{tally.kind:<9}  {tally.what}{size}")
            freed += tally.size_bytes
    except KeyboardInterrupt:
        raise Interrupted("stopped; run the same command again to continue") from None
    if remove:
        show(f"{decimal(freed)} freed")
    else:
        show(f"{decimal(freed)} would be freed; --remove frees it")


def _make_request(
    older_than: str, experiment: str | None, only: list[str], results: bool, remove: bool
) -> PruneRequest:
    stated = re.fullmatch(r"(\d{1,5})([hd])", older_than)
    if stated is None:
        raise UsageError(f"--older-than {older_than!r} is not an age: write it like 30d or 12h")
    if results and experiment is None:
        raise UsageError("--results removes a whole experiment: name it with --experiment")
    if unknown := set(only) - set(_OF_THE_LAKE):
        raise UsageError(f"--only {min(unknown)!r}: choose from {', '.join(_OF_THE_LAKE)}")
    possible = _OF_THE_LAKE if experiment is None else _OF_AN_EXPERIMENT
    kinds = tuple(kind for kind in possible if not only or kind in only)
    if shared := sorted(set(only) - set(kinds)):
        raise UsageError(f"{' and '.join(shared)} belong to no experiment: omit --experiment")
    age = timedelta(hours=int(stated[1]) * _HOURS[stated[2]])
    return PruneRequest(age, experiment, results, kinds, remove)


class _Pruning:
    """One pass over a lake, kind by kind in the required order. It may only count."""

    def __init__(
        self, lake: Lake, experiments: list[str], journal: Journal | None, wanted: PruneRequest
    ) -> None:
        self._lake = lake
        self._experiments = experiments
        self._journal = journal
        self._wanted = wanted
        self._before = datetime.now(UTC) - wanted.age
        self._holdings = journal.retention.holdings() if journal else []
        self._dropped: set[str] = set()
        """Attempts whose steps are removed, or would be."""
        names = {*experiments, *(holding.attempt.experiment for holding in self._holdings)}
        if wanted.experiment is not None and wanted.experiment not in names:
            hint = near(wanted.experiment, sorted(names))
            raise UsageError(f"no experiment {wanted.experiment!r} in {lake.root}; {hint}")

    def tallies(self) -> Iterator[Pruned]:
        """Yield the result of each kind as soon as it is done."""
        if self._wanted.experiment is not None and self._wanted.results:
            yield self._whole(self._wanted.experiment)
        experiment, remove = self._wanted.experiment, self._wanted.remove
        names = self._experiments if experiment is None else [experiment]
        kinds: dict[Kind, Callable[[], Pruned]] = {
            "steps": self._steps,
            "rows": self._rows,
            "bodies": self._bodies,
            "reports": self._reports,
            "files": self._files,
            "images": lambda: caches.prune_images(self._lake, self._before, remove=remove),
            "mirrors": lambda: caches.prune_mirrors(self._lake, self._before, remove=remove),
            "artifacts": lambda: caches.prune_artifacts(
                self._lake, names, self._before, remove=remove
            ),
        }
        for kind in self._wanted.kinds:
            yield kinds[kind]()
        if self._wanted.remove and self._journal is not None:
            yield self._compact(self._journal)

    def _whole(self, name: str) -> Pruned:
        """Prune everything of an experiment, as if it had never been run."""
        files = retention.of_experiment(self._lake, name)
        holdings = [holding for holding in self._holdings if holding.attempt.experiment == name]
        self._check_whole(name, files, holdings)
        ids = [holding.attempt.attempt_id for holding in holdings]
        bills = [self._journal.account(id_).billed_usd for id_ in ids] if self._journal else []
        billed = UNKNOWN if None in bills else f"${sum(filter(None, bills)):,.4f}"
        if self._wanted.remove:
            if self._journal is not None:
                asyncio.run(_remove_snapshots(self._journal.id, ids))
            for attempt_id in show_progress(ids, "attempts"):
                assert self._journal is not None, "it listed them"
                self._journal.retention.remove(attempt_id)
            retention.remove_with_folders(show_progress(files, "results"))
        self._dropped.update(ids)
        return Pruned(
            "results",
            f"everything of {name}, {plural(len(files), 'file')} and "
            f"{plural(len(holdings), 'attempt')}: a later run of that name starts "
            f"afresh and pays again what was billed, {billed}",
            _size(files) + sum(holding.size_bytes for holding in holdings),
        )

    def _check_whole(self, name: str, files: list[RemovableFile], holdings: list[Holding]) -> None:
        ids = {holding.attempt.attempt_id for holding in holdings}
        if any(holding.is_held for holding in holdings):
            raise UsageError(f"experiment {name!r} is running: stop it, or wait")
        idle_s = [time.time() - file.written_at for file in files]
        idle_s += [holding.idle_s for holding in holdings if holding.idle_s is not None]
        if min(idle_s, default=0.0) < self._wanted.age.total_seconds():
            raise UsageError(
                f"experiment {name!r} was active since {self._before:%Y-%m-%d %H:%M} UTC: a "
                "smaller --older-than, down to 0h, removes it anyway"
            )
        for holding in self._holdings:
            if holding.attempt.parent_id in ids - {holding.attempt.attempt_id}:
                child = holding.attempt
                if child.experiment != name and not holding.has_ended:
                    raise UsageError(
                        f"attempt {child.attempt_id} of {child.experiment!r} was forked from "
                        f"{name!r} and has not ended: finish or remove that one first"
                    )

    def _steps(self) -> Pruned:
        """Prune the steps of attempts that ended long ago."""
        running = {holding.attempt.experiment for holding in self._holdings if holding.is_held}
        old = [
            holding
            for holding in self._holdings
            if holding.has_ended
            and holding.idle_s is not None
            and holding.idle_s >= self._wanted.age.total_seconds()
            and holding.attempt.experiment not in running
            and holding.attempt.attempt_id not in self._dropped
            and self._wanted.experiment in (None, holding.attempt.experiment)
        ]
        gone = [holding for holding in show_progress(old, "steps") if self._is_filed(holding)]
        incomplete = len(old) - len(gone)
        needed = {
            holding.attempt.parent_id
            for holding in self._holdings
            if holding.attempt.reuse is not None and not holding.has_ended
        }
        reused = [holding for holding in gone if holding.attempt.attempt_id in needed]
        gone = [holding for holding in gone if holding not in reused]
        if self._wanted.remove:
            gone = [holding for holding in show_progress(gone, "steps") if self._prune(holding)]
        self._dropped.update(holding.attempt.attempt_id for holding in gone)
        steps = sum(holding.steps for holding in gone)
        what = f"{plural(len(gone), 'attempt')} that ended, {plural(steps, 'step')}"
        if gone:
            what += "; fork, recordings and full outputs in trace need them"
        if incomplete:
            what += f"; not of {incomplete}, because this lake lacks some of their rows"
        if reused:
            what += f"; not of {len(reused)}, because attempts that reuse them have not ended"
        return Pruned("steps", what, sum(holding.size_bytes for holding in gone))

    def _rows(self) -> Pruned:
        """Compact the rows of attempts that ended long ago."""
        if self._journal is None:
            return Pruned("rows", f"not checked: {_NO_JOURNAL}")
        turns = self._journal.retention.count_turns()
        if turns is None:
            return Pruned("rows", f"not checked: {_WRITING}")
        ended = find_ended(self._holdings, self._wanted.age.total_seconds())
        if (name := self._wanted.experiment) is not None:
            ended = {} if self._wanted.results else {name: ended.get(name, set())}
        compaction = Compaction(self._lake, ended)
        what = f"{compaction.count_files()} files of attempts that ended"
        if not self._wanted.remove:
            return Pruned("rows", f"{what} fit into about {compaction.count_compacted()}")
        is_whole = compaction.run(self._journal, turns)
        what += f" were compacted into {compaction.written}"
        return Pruned("rows", what if is_whole else f"{what}; an attempt started, so some stay")

    def _is_filed(self, holding: Holding) -> bool:
        """Return True if the lake has all rows of the attempt. They are only written once."""
        assert self._journal is not None, "it listed the attempt"
        attempt = holding.attempt
        where = (attempt.experiment, attempt.arm, attempt.attempt_id)
        rows = self._lake.read("attempts", *where)
        if not rows or not self._lake.has("predictions", *where):
            return False
        ended = json.loads(self._journal.outcome(attempt.attempt_id) or "{}")
        calls, steps = (len(self._lake.read(table, *where)) for table in ("llm_calls", "steps"))
        filed = (rows[0]["outcome"], rows[0]["model_calls"], holding.steps)
        return filed == (ended.get("status"), calls, steps)

    def _prune(self, holding: Holding) -> bool:
        assert self._journal is not None, "it listed the attempt"
        try:
            self._journal.retention.prune(holding.attempt.attempt_id)
        except LeaseHeld:
            return False
        return True

    def _bodies(self) -> Pruned:
        """Prune payloads that no step of any experiment refers to. Experiments share payloads."""
        if self._journal is None:
            return Pruned("bodies", f"not checked: {_NO_JOURNAL}")
        if reason := self._other_journal():
            return Pruned("bodies", f"not checked: {reason}")
        dropped = () if self._wanted.remove else self._dropped
        references = self._journal.retention.references(dropped)
        if references.turns is None:
            return Pruned("bodies", f"not checked: {_WRITING}")
        files = retention.find_unreferenced(self._lake, references.names)
        what = f"{plural(len(files), 'file')} that no step refers to"
        if self._wanted.remove:
            batches = retention.remove_bodies(files, self._journal, references.turns)
            gone = [file for batch in batches for file in batch]
            if len(gone) < len(files):
                what = f"{len(gone)} of {what}; an attempt started, so the rest is kept"
            files = gone
        return Pruned("bodies", what, _size(files))

    def _other_journal(self) -> str:
        """Return why steps in another journal may refer to this lake's payloads, or ''."""
        url = os.environ.get(VARIABLE, "")
        beside = matching(self._lake.root, "*.sqlite")
        if url and any(not url.endswith(str(path)) for path in beside):
            return f"the lake has its own journal in addition to {VARIABLE}"
        recorded = {holding.attempt.attempt_id for holding in self._holdings}
        others = (
            row["attempt_id"]
            for name in show_progress(self._experiments, "attempts")
            if set(self._lake.units("attempts", "*", name)) - recorded
            for row in self._lake.rows("attempts", name)
            if row["attempt_id"] not in recorded and was_run(row)
        )
        for attempt_id in others:
            return f"attempt {attempt_id} is in another journal: set {VARIABLE} to it"
        return ""

    def _reports(self) -> Pruned:
        """Prune reports that were last written long ago."""
        reports = retention.find_old_reports(self._lake, self._before.timestamp())
        files = [file for name in sorted(reports) for file in reports[name]]
        if self._wanted.remove:
            retention.remove_with_folders(show_progress(files, "reports"))
        what = f"{len(reports)} not written since {self._before:%Y-%m-%d}"
        if reports:
            what += "; `durabench report NAME` writes one again"
        return Pruned("reports", what, _size(files))

    def _files(self) -> Pruned:
        """Prune files that will never be read again."""
        files = retention.find_unfinished(self._lake)
        if self._wanted.remove:
            retention.remove(files)
        return Pruned(
            "files", f"{len(files)} left by killed writers or no longer needed", _size(files)
        )

    def _compact(self, journal: Journal) -> Pruned:
        """Compact the journal. This is the last step, because it needs disk space."""
        if journal.active():
            return Pruned("journal", "its file only shrinks if nothing is running")
        return Pruned("journal", f"its file shrank by {decimal(journal.retention.compact())}")


async def _remove_snapshots(journal_id: str, attempt_ids: Iterable[str]) -> None:
    """Remove the snapshots of attempts now; afterwards their owner would be unknown."""
    snapshots = await janitor.snapshots(journal_id)
    images = {image for attempt_id in attempt_ids for image in snapshots.get(attempt_id, ())}
    await janitor.remove_snapshots(images)


def _size(files: Iterable[RemovableFile]) -> int:
    return sum(file.size_bytes for file in files)
