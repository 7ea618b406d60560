"""Trajectories in the Agent Trajectory Interchange Format, read in the versions 1.0 to 1.8.

A trajectory can be continued in another file, and a subagent can have a separate file. Such files
are parts of the attempt that refers to them.
"""

import hashlib
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from atif import Agent, FinalMetrics, Step, SubagentTrajectoryRef, Trajectory
from pydantic import ValidationError

from flows.display.errors import UsageError
from flows.formats import attempts, lake_rows, step_rows
from flows.formats.attempts import ExchangedAttempt, ReadFiles, first_problem, read_content
from flows.formats.folders import find_files, is_inside
from flows.formats.step_rows import inside
from flows.storage.lake import Row
from flows.storage.whole_files import write_whole

WRITTEN = "ATIF-v1.7"
"""The first version with subagents in the same file and steps without a model call."""

_VERSION = re.compile(r"ATIF-v1\.[0-8]")
_MARK = re.compile(rb'"schema_version"\s*:\s*"ATIF-v')
"""Text in every trajectory, but not in another file that quotes one."""

_NAMES_OF_INSTANCES = ("instance_id", "task_id", "task_name")
"""Free fields that can name the instance, by priority."""

_ENDINGS = (".json", ".atif", ".traj", ".trajectory")


def read(paths: Sequence[Path]) -> ReadFiles:
    """Read trajectories.

    A file says nothing about its instance in a field of the format: the name is taken from the free
    fields, or else from the file. The format has no verdict and no patch either; only trajectories
    that `durabench export` wrote have them.

    Raises:
        UsageError: a file cannot be used.
    """
    names = dict.fromkeys(path.resolve().name for path in paths)
    return ReadFiles(list(map(read_recording, find(paths))), ", ".join(names))


def write(attempt: ExchangedAttempt, path: Path) -> None:
    """Write an attempt as a trajectory. A scope is a subagent."""
    facts = attempt.facts
    agent = Agent(
        name=attempt.program or facts.agent,
        version=attempt.version or "unknown",
        model_name=attempt.model,
    )
    ids: Row = {"schema_version": WRITTEN, "session_id": attempt.digest}
    main, *scopes = attempt.lines.items() or [("", [])]
    nothing = Step(step_id=1, source="system", message=f"No steps: {facts.outcome}")
    trajectory = Trajectory(
        **ids,
        trajectory_id=attempt.digest,
        agent=agent,
        steps=list(main[1]) or [nothing],  # the format demands one
        final_metrics=FinalMetrics(
            total_prompt_tokens=facts.input_tokens,
            total_completion_tokens=facts.output_tokens,
            total_cached_tokens=facts.cache_read_tokens,
            total_cost_usd=facts.cost_usd,
        ),
        extra=attempts.to_extra(facts),
        subagent_trajectories=[
            Trajectory(**ids, trajectory_id=scope, agent=agent, steps=list(steps))
            for scope, steps in scopes
        ]
        or None,
    )
    content = trajectory.model_dump_json(exclude_none=True, indent=1)
    write_whole(path, content.encode(errors="backslashreplace"))


@dataclass(frozen=True)
class TrajectoryPart:
    """One trajectory of an attempt."""

    scope: str
    """The path of its subagent; empty for the attempt's main line."""
    trajectory: Trajectory
    repeats_others: bool
    """True if its copied steps are in another part, as after a summary."""


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


def read_recording(recording: Recording) -> ExchangedAttempt:
    """Return the attempt of a recording.

    Raises:
        UsageError: a figure or a fact in it cannot be used.
    """
    first, source = recording.first, str(recording.path)
    total = recording.last.final_metrics or FinalMetrics()
    model = first.agent.model_name or ""
    lines: dict[str, list[Step]] = {}
    for part in recording.parts:
        lines.setdefault(part.scope, []).extend(_select_steps(part, model))
    try:
        stated = attempts.of_extra(first.extra)
        usage = attempts.sum_usage(
            step_rows.calls(lines, model),
            {
                "input_tokens": attempts.count(total.total_prompt_tokens, "total_prompt_tokens"),
                "cache_read_tokens": attempts.count(
                    total.total_cached_tokens, "total_cached_tokens"
                ),
                "output_tokens": attempts.count(
                    total.total_completion_tokens, "total_completion_tokens"
                ),
            },
            attempts.amount(total.total_cost_usd, "total_cost_usd"),
        )
    except ValueError as error:
        raise UsageError(f"{source}: {error}") from None
    if stated:
        return ExchangedAttempt(stated, source, recording.digest, lines)
    instance_id = _find_instance(recording)
    models = dict.fromkeys(step.model_name for step in first.steps if step.model_name)
    answers = (step for line in lines.values() for step in line if step.source == "agent")
    times = (step_rows.moment(step.timestamp) for step in answers)
    started_at = min(filter(None, times), default=None)
    facts = attempts.describe(
        source,
        usage,
        agent=first.agent.name,
        model=model or ", ".join(models) or "unknown",
        instance_id=instance_id,
        repo=lake_rows.repository(instance_id),
        outcome="submitted",
        detail="ATIF trajectory",
        started_at=started_at,
    )
    version = "" if first.agent.version == "unknown" else first.agent.version
    order = (started_at.isoformat() if started_at else "",)
    return ExchangedAttempt(facts, source, recording.digest, lines, version, order)


def _find_instance(recording: Recording) -> str:
    """Return the instance that the free fields name, or else the file, or else its folder."""
    extra = recording.first.extra or {}
    for name in _NAMES_OF_INSTANCES:
        if isinstance(extra.get(name), str) and extra[name].strip():
            return str(extra[name]).strip()
    path = recording.path
    name = path.name
    while name.endswith(_ENDINGS):
        name = name.rpartition(".")[0]
    return path.parent.name if name == "trajectory" else name


def _select_steps(part: TrajectoryPart, usual: str) -> Iterator[Step]:
    """Yield the steps of a part without steps copied from another part.

    Copied calls with figures belong to this attempt: a fork's copied calls are credited to it.
    Steps name the model of their part if it is not the usual one.
    """
    copied = [step for step in part.trajectory.steps if step.is_copied_context]
    leaves_out = part.repeats_others and not any(step.metrics for step in copied)
    model = part.trajectory.agent.model_name or usual or "unknown"
    for step in part.trajectory.steps:
        if leaves_out and step.is_copied_context:
            continue
        is_other = step.source == "agent" and step.model_name is None and model != usual
        yield step.model_copy(update={"model_name": model}) if is_other else step


def find(paths: Iterable[Path]) -> list[Recording]:
    """Return the attempts in files and folders, in the order of their paths.

    Other files of a folder are passed over.

    Raises:
        UsageError: a file cannot be read or is not a valid trajectory, or a folder has none.
    """
    contents: dict[Path, bytes] = {}
    for path in paths:
        if not path.is_dir():
            contents[path.resolve()] = read_content(path)
            continue
        in_folder = {file.resolve(): read_content(file) for file in find_files(path, ".json")}
        in_folder = {file: content for file, content in in_folder.items() if _MARK.search(content)}
        if not in_folder:
            raise UsageError(f"{path} contains no ATIF trajectory")
        contents |= in_folder
    trajectories = {path: parse(path, content) for path, content in contents.items()}
    parts = {
        part
        for path, trajectory in trajectories.items()
        for part in _find_references(path, trajectory)
    }
    starts = [path for path in trajectories if path not in parts]
    if not starts:
        raise UsageError(f"{min(trajectories)} and the other trajectories refer to each other")
    return [
        Recording(
            path,
            list(_gather(path, trajectories[path])),
            hashlib.sha256(contents[path]).hexdigest(),
        )
        for path in starts
    ]


def parse(path: Path, content: bytes) -> Trajectory:
    """Return the trajectory in the content of a file.

    Raises:
        UsageError: it is not a trajectory, or its version is unknown.
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
    """Check the rules of the format that the package does not check."""
    if not _VERSION.fullmatch(trajectory.schema_version):
        raise ValueError(
            f"schema_version is {trajectory.schema_version!r}; known: ATIF-v1.0 to ATIF-v1.8"
        )
    if not trajectory.steps:
        raise ValueError("steps: it has none")
    for step in trajectory.steps:
        calls = {call.tool_call_id for call in step.tool_calls or ()}
        for result in step.observation.results if step.observation else ():
            if result.source_call_id is not None and result.source_call_id not in calls:
                raise ValueError(
                    f"step {step.step_id}: a result is of the call {result.source_call_id!r}, "
                    "which the step does not have"
                )
    for subagent in trajectory.subagent_trajectories or ():
        _check(subagent)


def _find_references(path: Path, trajectory: Trajectory) -> Iterator[Path]:
    """Yield the files that a trajectory refers to."""
    if continuation := _find_file(path, trajectory.continued_trajectory_ref):
        yield continuation
    for ref in _find_refs(trajectory.steps):
        if file := _find_file(path, ref.trajectory_path):
            yield file
    for subagent in trajectory.subagent_trajectories or ():
        yield from _find_references(path, subagent)


def _find_refs(steps: Iterable[Step]) -> Iterator[SubagentTrajectoryRef]:
    for step in steps:
        for result in step.observation.results if step.observation else ():
            yield from result.subagent_trajectory_ref or ()


def _find_file(path: Path, name: str | None) -> Path | None:
    """Return the file that a trajectory refers to; None if its folder does not have the file."""
    if not name or "://" in name or "\0" in name:
        return None
    file = (path.parent / name).resolve()
    is_other = file != path and is_inside(file, path.parent)
    return file if is_other and file.is_file() else None


def _gather(path: Path, trajectory: Trajectory) -> Iterator[TrajectoryPart]:
    """Yield the parts of an attempt: its main line, segment by segment, and then its subagents."""
    line, seen = [(path, trajectory)], {path}
    while file := _find_file(line[-1][0], line[-1][1].continued_trajectory_ref):
        if file in seen:
            raise UsageError(f"{path}: its continuations refer to each other")
        seen.add(file)
        line.append((file, parse(file, read_content(file))))
    for number, (_, segment) in enumerate(line):
        yield TrajectoryPart("", segment, repeats_others=number > 0)
    for file, segment in line:
        yield from _gather_subagents(file, segment, "", seen)


def _gather_subagents(
    path: Path, trajectory: Trajectory, scope: str, seen: set[Path]
) -> Iterator[TrajectoryPart]:
    """Yield the subagents of a trajectory, each followed by its subagents."""
    for subagent in trajectory.subagent_trajectories or ():
        inner = inside(scope, subagent.trajectory_id or subagent.agent.name)
        yield TrajectoryPart(inner, subagent, True)
        yield from _gather_subagents(path, subagent, inner, seen)
    for ref in _find_refs(trajectory.steps):
        file = _find_file(path, ref.trajectory_path)
        if file is None or file in seen:
            continue
        seen.add(file)
        inner = inside(scope, ref.trajectory_id or file.stem)
        subagent = parse(file, read_content(file))
        yield TrajectoryPart(inner, subagent, True)
        yield from _gather_subagents(file, subagent, inner, seen)
