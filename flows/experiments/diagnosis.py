"""The diagnosis of a failed attempt from its record, and a fork that tries something else."""

import json
import re
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from agent.errors import JournalError
from agent.graph.attempt import graph_of
from agent.graph.state import ExecutionStateGraph
from agent.journal import Attempt, Journal, RecordedStep
from agent.session.steps import from_record
from flows.display.errors import UsageError
from flows.display.steps import of_step
from flows.experiments.changes import Written, differing, writers
from flows.storage.journals import blobs, existing_journal
from flows.storage.lake import Lake, Row
from flows.storage.outputs import describe_output
from reports.format import plural
from reports.steps import DiagnosisPart, GraphStep, Insight, describe_flaws, list_remedies

_NAMED = 5
"""Tests, files and steps that one line names."""

_TESTS = re.compile(r"\b(pytest|unittest|runtests|tox|bin/test|run_tests|npm test|go test)\b")


@dataclass(frozen=True)
class Subject:
    """An attempt with the data for its diagnosis."""

    lake: Lake
    journal: Journal
    attempt: Attempt
    cache: dict[str, "Subject"] = field(default_factory=dict)
    """Other attempts by id. Diagnoses that share them read each verdict once."""

    @cached_property
    def steps(self) -> list[RecordedStep]:
        """Its steps in the order in which they started."""
        steps = self.journal.steps(self.attempt.attempt_id)
        return sorted(steps, key=lambda step: step.ordinal)

    @cached_property
    def graph(self) -> ExecutionStateGraph:
        """Dependencies between its steps."""
        return graph_of(self.steps, label)

    @cached_property
    def row(self) -> Row | None:
        """Its row of `attempts`; None while it has none."""
        return next(iter(self._rows("attempts")), None)

    @cached_property
    def verdict(self) -> Row | None:
        """Its latest grading; None while it has none."""
        attempt = self.attempt
        where = (attempt.experiment, attempt.arm)
        units = self.lake.units("evaluations", f"{attempt.attempt_id}-*", *where)
        rows = [row for unit in units for row in self.lake.read("evaluations", *where, unit)]
        return max(rows, key=lambda row: row["started_at"], default=None)

    @cached_property
    def patch(self) -> str:
        """The patch that it left."""
        return "".join(row["model_patch"] for row in self._rows("predictions"))

    @property
    def report(self) -> dict[str, Any]:
        """The report of its arm, or {}."""
        return json.loads(self.row["report"]) if self.row and self.row["report"] else {}

    @property
    def is_resolved(self) -> bool:
        """Return True if its patch was graded as resolved."""
        return self.verdict is not None and bool(self.verdict["resolved"])

    def _rows(self, table: str) -> list[Row]:
        attempt = self.attempt
        return self.lake.read(table, attempt.experiment, attempt.arm, attempt.attempt_id)


def insight(subject: Subject) -> Insight:
    """Return the graph of an attempt, and its diagnosis.

    Raises:
        JournalError: a stored work tree cannot be read.
    """
    return Insight(draw_graph(subject.graph), diagnose(subject))


def insights(lake: Lake) -> Callable[[str], Insight | None]:
    """Return a function from the id of an attempt to its insight, if the journal has its steps."""
    try:
        journal = existing_journal(lake)
    except (JournalError, UsageError):
        journal = None
    cache: dict[str, Subject] = {}

    def insight_of(attempt_id: str) -> Insight | None:
        if journal is None:
            return None
        attempt = journal.attempt(attempt_id)
        if attempt is None or journal.pruned_at(attempt_id) is not None:
            return None
        try:
            return insight(Subject(lake, journal, attempt, cache))
        except JournalError:
            return None

    return insight_of


def draw_graph(graph: ExecutionStateGraph) -> tuple[GraphStep, ...]:
    """Return the steps of a graph with the steps that they use."""
    uses: dict[str, list[str]] = {node.id: [] for node in graph.nodes}
    for source, target, _ in graph.edges:
        uses[target].append(source)
    return tuple(
        GraphStep(node.id, node.state, node.label, tuple(uses[node.id])) for node in graph.nodes
    )


def label(step: RecordedStep) -> str:
    """Return a step in a few words."""
    if step.result is None:
        return f"{step.kind}: no result"
    view = of_step(from_record(step))
    return f"{view.name} {view.did}".strip()


def diagnose(subject: Subject, lake_path: str | None = None) -> tuple[DiagnosisPart, ...]:
    """Return the likely causes of an attempt's failure; nothing if it is resolved.

    If its own arm rejected the patch, the reasons of the arm come first, also if it is resolved.

    Raises:
        JournalError: a stored work tree cannot be read.
    """
    rejection = _describe_rejection(subject)
    if subject.is_resolved:
        return (rejection,) if rejection.lines else ()
    files = writers(subject.patch, subject.steps, blobs(subject.lake))
    # The files that the log of the failing tests names come first.
    log = subject.verdict["log_tail"] if subject.verdict else ""
    files.sort(key=lambda file: file.path not in log)
    resolved = _find_resolved(subject)
    change = _find_change(subject, resolved) if resolved else None
    parts = (
        rejection,
        _describe_failure(subject),
        _quote_program(subject),
        _describe_origin(subject, files),
        _describe_evidence(subject, files),
        _describe_change(subject, resolved, change),
        _propose_fork(subject, files, change, lake_path),
    )
    return tuple(part for part in parts if part.lines)


def _describe_rejection(subject: Subject) -> DiagnosisPart:
    """Return the reasons for which the arm does not accept its own patch."""
    report, lines = subject.report, []
    if report.get("agent_verdict") == "rejected":
        lines.append(f"The arm ended as {report.get('workflow_status')} and rejects its patch.")
        if closed := report.get("closed_gates"):
            lines.append(f"Gates that stayed closed: {', '.join(closed)}.")
        lines += [*(report.get("failed_checks") or ())[:_NAMED], report.get("unfinished") or ""]
        for final in (report.get("finals") or ())[-1:]:
            broken = final["broken"]
            lines += [f"Tests that its change broke: {_some(broken)}."] if broken else []
            lines += [*final["reasons"], *final["issues"]][:_NAMED]
    return DiagnosisPart("Rejected by its own arm", tuple(map(_short, filter(None, lines))))


def _describe_failure(subject: Subject) -> DiagnosisPart:
    verdict, row = subject.verdict, subject.row
    lines = []
    if verdict is None:
        lines.append("The patch has no verdict yet." if subject.patch else "There is no patch.")
    else:
        reason = f": {verdict['reason']}" if verdict["reason"] else ""
        lines.append(f"The verdict is {verdict['outcome']}{reason}.")
        for column, problem in (
            ("fail_to_pass_failure", "should pass, but failed"),
            ("pass_to_pass_failure", "passed before, but failed"),
        ):
            if names := verdict[column]:
                lines.append(f"{plural(len(names), 'test')} {problem}: {_some(names)}")
    if row is not None:
        detail = f", {row['detail']}" if row["detail"] else ""
        lines.append(f"The attempt ended as {row['outcome']}{detail}.")
        if flaws := describe_flaws(row):
            lines.append(f"Its model: {flaws}.")
        lines += list_remedies(row)
    return DiagnosisPart("Failures", tuple(lines))


def _quote_program(subject: Subject) -> DiagnosisPart:
    """Return the end of the output of a program that failed."""
    attempt, row = subject.attempt, subject.row
    lines: list[str] = []
    if row is not None and row["outcome"] != "submitted":
        lines = describe_output(subject.lake, attempt.experiment, attempt.attempt_id)
    return DiagnosisPart("Output of the program", tuple(lines))


def _describe_origin(subject: Subject, files: Sequence[Written]) -> DiagnosisPart:
    lines, steps = [], []
    for file in files[:_NAMED]:
        size = f"{file.path} (+{file.added} -{file.removed})"
        if file.step is None:
            lines.append(f"{size}: no single step wrote it as it is")
            continue
        caller = _find_caller(subject.graph, file.step)
        requested = f", asked for by call {caller}" if caller else ""
        lines.append(f"{size}: step {file.step.place}, {_short(label(file.step))}{requested}")
        steps += [file.step.place, *([caller] if caller else [])]
    if not files:
        lines.append("The attempt left no changed line.")
    return DiagnosisPart("Origin of the lines", tuple(lines), tuple(dict.fromkeys(steps)))


def _find_caller(graph: ExecutionStateGraph, step: RecordedStep) -> str | None:
    """Return the latest model call that a step depends on by talk: the call that requested it."""
    place: str | None = step.place
    while place is not None:
        if any(name.startswith("model:") for name in graph.get_node(place).reads):
            return place
        flows = graph.get_flows(place)
        talks = [source for source in flows if any(n.startswith("talk:") for n in flows[source])]
        place = max(talks, key=graph.position, default=None)
    return None


def _describe_evidence(subject: Subject, files: Sequence[Written]) -> DiagnosisPart:
    """Describe the tests that ran on the written lines, and the report of the agent."""
    last = max((file.step.ordinal for file in files if file.step is not None), default=None)
    after = [step for step in subject.steps if last is not None and step.ordinal > last]
    runs = [step for step in after if _is_test_run(step)]
    lines, steps = [], []
    for step in runs[-_NAMED:]:
        view = of_step(from_record(step))
        lines.append(f"step {step.place}: {_short(label(step))}: {view.outcome or 'no exit code'}")
        steps.append(step.place)
    if files and not runs:
        lines.append("No test was run on these lines.")
    if subject.verdict and runs:
        verdict = subject.verdict
        failing = [*verdict["fail_to_pass_failure"], *verdict["pass_to_pass_failure"]]
        modules = dict.fromkeys(name.partition("::")[0] for name in failing)
        texts = b"\n".join(step.request + (step.result or b"") for step in runs)
        unseen = [name for name in modules if name.encode("utf-8", "replace") not in texts]
        if unseen:
            lines.append(f"No such run names the failing tests of {_some(unseen)}.")
    row, report = subject.row, subject.report
    if agent_verdict := report.get("agent_verdict"):
        lines.append(f"The agent's own verdict is {agent_verdict}.")
    if report and not report.get("reproduced", True):
        lines.append("No new test was seen to fail before the change.")
    if not lines and not (row and describe_flaws(row)):
        lines.append("Nothing was left to judge.")
    return DiagnosisPart("Evidence that let it pass", tuple(lines), tuple(steps))


def _is_test_run(step: RecordedStep) -> bool:
    if step.kind not in ("command", "action") or step.result is None:
        return False
    request = step.request.decode("utf-8", "surrogatepass")
    return _TESTS.search(request) is not None or b'"tests":{' in step.result


def _find_resolved(subject: Subject) -> Subject | None:
    """Return the resolved attempt at the same instance that is nearest to this one, or None.

    The nearest one shares its first steps, or else has the same repeat, or else the same arm.
    """
    attempt = subject.attempt

    def get_distance(other: Attempt) -> tuple[bool, bool, bool, str]:
        is_far = not _is_related(attempt, other)
        return is_far, attempt.repeat != other.repeat, attempt.arm != other.arm, other.attempt_id

    others = subject.journal.at_instance(attempt.experiment, attempt.instance_id)
    for other in sorted(others, key=get_distance):
        if other.attempt_id != attempt.attempt_id:
            new = Subject(subject.lake, subject.journal, other, subject.cache)
            candidate = subject.cache.setdefault(other.attempt_id, new)
            if candidate.is_resolved:
                return candidate
    return None


def _is_related(attempt: Attempt, other: Attempt) -> bool:
    """Return True if one was forked or derived from the other, or both from a third attempt."""
    family = {attempt.attempt_id, attempt.parent_id} & {other.attempt_id, other.parent_id}
    return bool(family - {None})


@dataclass(frozen=True)
class _Change:
    """The first reply of an attempt that differs from another attempt's."""

    step: RecordedStep
    how: str
    is_shared: bool
    """True if the attempts share all earlier steps."""


def _find_change(subject: Subject, other: Subject) -> _Change | None:
    """Return the first call with a different reply.

    Paths of workspaces and durations of tests are part of results, so only replies are compared.
    """
    others = {step.place: step for step in other.steps}
    is_shared = _is_related(subject.attempt, other.attempt)
    for step in subject.steps:
        if step.kind != "model":
            continue
        twin = others.get(step.place)
        if twin is None:
            return _Change(step, "the other attempt has no such call", is_shared)
        if _read_message(twin) != _read_message(step):
            request = "the same request" if twin.digest == step.digest else "another request"
            return _Change(step, f"{request}, answered by {_short(label(twin))}", is_shared)
    return None


def _read_message(step: RecordedStep) -> Any:
    if step.result is None:
        return None
    return json.loads(step.result.decode("utf-8", "surrogatepass")).get("message")


def _describe_change(
    subject: Subject, other: Subject | None, change: _Change | None
) -> DiagnosisPart:
    title = "First difference from a resolved attempt"
    if other is None:
        return DiagnosisPart(title, ("No other attempt at this instance is resolved.",))
    lines = [f"{other.attempt.arm}, attempt {other.attempt.attempt_id[:12]}, is resolved."]
    if change is None:
        lines.append("Until this attempt ended, it gave the same replies.")
    else:
        step = change.step
        lines.append(f"First other reply: step {step.place}, {_short(label(step))}: {change.how}")
    if paths := differing(subject.patch, other.patch):
        lines.append(f"Its patch differs in {_some(paths)}.")
    return DiagnosisPart(title, tuple(lines), () if change is None else (change.step.place,))


def _propose_fork(
    subject: Subject, files: Sequence[Written], change: _Change | None, lake_path: str | None
) -> DiagnosisPart:
    """Propose a fork from the call that led to the difference, to the lines, or to the end."""
    title = "Forks to try"
    callers = (_find_caller(subject.graph, file.step) for file in files if file.step is not None)
    calls = [step.place for step in subject.steps if step.kind == "model"]
    if change is not None and change.is_shared:
        place: str | None = change.step.place
    else:
        place = next(filter(None, callers), calls[-1] if calls else None)
    if place is None:
        return DiagnosisPart(title, ("The attempt made no model call that could be made again.",))
    words = ["durabench", "fork", subject.attempt.attempt_id, "--at", place]
    words += ["--lake", lake_path] if lake_path else []
    index = next(at for at, step in enumerate(subject.steps) if step.place == place)
    proposal = (
        f"Make call {place} again: {index} of {plural(len(subject.steps), 'step')} are kept. "
        "--model and --options change what answers."
    )
    return DiagnosisPart(title, (proposal,), (place,), shlex.join(words))


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more


def _short(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= 100 else f"{flat[:99]}…"
