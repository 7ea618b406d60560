"""Find ATIF trajectories, and put the files of one attempt together.

A trajectory may be continued in another file, and a subagent may have a file of its own. Such files
are parts of the attempt that refers to them.
"""

import hashlib
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from atif import Step, SubagentTrajectoryRef, Trajectory
from pydantic import ValidationError

from flows.display.errors import UsageError
from flows.formats.facts import first_problem

_VERSION = re.compile(r"ATIF-v1\.[0-8]")
_MARK = re.compile(rb'"schema_version"\s*:\s*"ATIF-v')
"""Text that every trajectory contains, and none that is quoted in another file."""


@dataclass(frozen=True)
class TrajectoryPart:
    """One trajectory of an attempt."""

    scope: str
    """The path of the subagent that it is of; empty for the attempt's main line."""
    trajectory: Trajectory
    repeats_others: bool
    """True if its copied steps are in another part, as they are after a summary."""


@dataclass(frozen=True)
class Recording:
    """The trajectories of one attempt."""

    path: Path
    parts: Sequence[TrajectoryPart]
    """The main line first, in order, and then the subagents."""
    digest: str
    """SHA-256 of the file of the main line."""

    @property
    def first(self) -> Trajectory:
        """The beginning of the main line."""
        return self.parts[0].trajectory

    @property
    def last(self) -> Trajectory:
        """The last part of the main line, which has the totals of the attempt."""
        return [part.trajectory for part in self.parts if not part.scope][-1]


def find(paths: Iterable[Path]) -> list[Recording]:
    """Return the attempts in files and folders, in the order of their paths.

    Other files of a folder are passed over.

    Raises:
        UsageError: a file cannot be read or is no valid trajectory, or a folder has none.
    """
    read: dict[Path, bytes] = {}
    for path in paths:
        chosen = _trajectories(path) if path.is_dir() else {path: _content(path)}
        if not chosen:
            raise UsageError(f"there is no ATIF trajectory in {path}")
        read |= {each.resolve(): content for each, content in chosen.items()}
    trajectories = {path: parse(path, content) for path, content in read.items()}
    parts = {part for path, one in trajectories.items() for part in _referred(path, one)}
    alone = [path for path in trajectories if path not in parts]
    if not alone:
        raise UsageError(f"{min(trajectories)} and the other trajectories refer to each other")
    return [
        Recording(
            path,
            list(_gathered(path, trajectories[path])),
            hashlib.sha256(read[path]).hexdigest(),
        )
        for path in alone
    ]


def parse(path: Path, content: bytes) -> Trajectory:
    """Return the trajectory in the content of a file.

    Raises:
        UsageError: it is none, or its version is unknown.
    """
    try:
        trajectory = Trajectory.model_validate_json(content)
        _check(trajectory)
    except ValidationError as error:
        raise UsageError(f"{path}: not an ATIF trajectory ({first_problem(error)})") from None
    except ValueError as error:
        raise UsageError(f"{path}: not an ATIF trajectory ({error})") from None
    return trajectory


def _check(trajectory: Trajectory) -> None:
    """Check what the format demands and the package does not check.

    Raises:
        ValueError: the version is unknown, there is no step, or a result has no call.
    """
    if not _VERSION.fullmatch(trajectory.schema_version):
        raise ValueError(
            f"schema_version is {trajectory.schema_version!r}; known: ATIF-v1.0 to ATIF-v1.8"
        )
    if not trajectory.steps:
        raise ValueError("steps: it has none")
    for step in trajectory.steps:
        asked = {call.tool_call_id for call in step.tool_calls or ()}
        for result in step.observation.results if step.observation else ():
            if result.source_call_id is not None and result.source_call_id not in asked:
                raise ValueError(
                    f"step {step.step_id}: a result is of the call {result.source_call_id!r}, "
                    "which the step does not have"
                )
    for subagent in trajectory.subagent_trajectories or ():
        _check(subagent)


def _trajectories(folder: Path) -> dict[Path, bytes]:
    files = ((path, _content(path)) for path in sorted(folder.rglob("*.json")) if path.is_file())
    return {path: content for path, content in files if _MARK.search(content)}


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from None


def _referred(path: Path, trajectory: Trajectory) -> Iterator[Path]:
    """Yield the files that a trajectory refers to."""
    if beside := _beside(path, trajectory.continued_trajectory_ref):
        yield beside
    for ref in _refs(trajectory.steps):
        if beside := _beside(path, ref.trajectory_path):
            yield beside
    for subagent in trajectory.subagent_trajectories or ():
        yield from _referred(path, subagent)


def _refs(steps: Iterable[Step]) -> Iterator[SubagentTrajectoryRef]:
    for step in steps:
        for result in step.observation.results if step.observation else ():
            yield from result.subagent_trajectory_ref or ()


def _beside(path: Path, name: str | None) -> Path | None:
    """Return the file that a trajectory refers to; None if it is not there."""
    if not name or "://" in name or "\0" in name:
        return None
    found = (path.parent / name).resolve()
    return found if found != path and found.is_file() else None


def _gathered(path: Path, trajectory: Trajectory) -> Iterator[TrajectoryPart]:
    """Yield the parts of an attempt: its main line, segment by segment, and then its subagents."""
    line, seen = [(path, trajectory)], {path}
    while beside := _beside(line[-1][0], line[-1][1].continued_trajectory_ref):
        if beside in seen:
            raise UsageError(f"{path}: its continuations refer to each other")
        seen.add(beside)
        line.append((beside, parse(beside, _content(beside))))
    yield from (TrajectoryPart("", each, number > 0) for number, (_, each) in enumerate(line))
    for at, segment in line:
        yield from _subagents(at, segment, "", seen)


def _subagents(
    path: Path, trajectory: Trajectory, scope: str, seen: set[Path]
) -> Iterator[TrajectoryPart]:
    """Yield the subagents of a trajectory, each with those of its own."""
    for subagent in trajectory.subagent_trajectories or ():
        inner = inside(scope, subagent.trajectory_id or subagent.agent.name)
        yield TrajectoryPart(inner, subagent, True)
        yield from _subagents(path, subagent, inner, seen)
    for ref in _refs(trajectory.steps):
        beside = _beside(path, ref.trajectory_path)
        if beside is None or beside in seen:
            continue
        seen.add(beside)
        inner = inside(scope, ref.trajectory_id or beside.stem)
        subagent = parse(beside, _content(beside))
        yield TrajectoryPart(inner, subagent, True)
        yield from _subagents(beside, subagent, inner, seen)


def inside(scope: str, name: str) -> str:
    """Return the scope of a subagent of a scope."""
    return f"{scope}/{name}" if scope else name
