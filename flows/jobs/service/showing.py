"""Data of the job's page: its patch by file, and the runs of its tests."""

from dataclasses import dataclass
from typing import Any

from flows.jobs.changes import changed_files
from flows.storage.files import make_readable

MOST_LINES = 2_000
"""Lines of a patch on a page. The whole patch is a file to download."""

_RUNS = {
    "before": "at the base commit",
    "after": "with the patch",
    "with_old_tests": "with the patch and the tests of the base commit",
}


@dataclass(frozen=True)
class PatchLine:
    """A line of a patch."""

    kind: str
    """added, removed, place (a hunk's first line), head or same."""
    text: str


@dataclass(frozen=True)
class ChangedFile:
    """A changed file of a patch."""

    path: str
    added: int
    removed: int
    lines: tuple[PatchLine, ...]


@dataclass(frozen=True)
class ShownRun:
    """One run of the tests."""

    name: str
    exit_code: int | None
    """None if it was not run."""
    counts: dict[str, int]
    failing: tuple[str, ...]


def files(patch: str) -> list[ChangedFile]:
    """Return the changed files of a patch, up to `MOST_LINES` lines in all."""
    parts: list[list[PatchLine]] = []
    in_hunk = False
    for text in make_readable(patch).splitlines()[:MOST_LINES]:
        if text.startswith("diff --git "):
            parts.append([])
            in_hunk = False
        in_hunk = in_hunk or text.startswith("@@")
        if parts:
            parts[-1].append(PatchLine(_kind(text, in_hunk), text))
    known = changed_files(patch)
    return [ChangedFile(*named, tuple(lines)) for named, lines in zip(known, parts, strict=False)]


def _kind(text: str, in_hunk: bool) -> str:
    if not in_hunk:
        return "head"
    return {"+": "added", "-": "removed", "@": "place"}.get(text[:1], "same")


def runs(evidence: dict[str, Any] | None) -> list[ShownRun]:
    """Return the runs of the tests that a verdict rests on."""
    found = []
    for name, title in _RUNS.items():
        run = (evidence or {}).get(name)
        if run is not None:
            failing = [*run["failed"], *run["errors"]]
            counts = {
                "passed": len(run["passed"]),
                "failed": len(failing),
                "skipped": len(run["skipped"]),
            }
            found.append(ShownRun(title, run["exit_code"], counts, tuple(failing)))
    return found
