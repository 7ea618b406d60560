"""The diagnosis of a failed attempt from its record, and a fork that would try otherwise."""

import json
import re
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
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
from reports.format import plural
from reports.steps import DiagnosisPart, GraphStep, Insight

_NAMED = 5
"""Tests, files and steps that one line names."""

_TESTS = re.compile(r"\b(pytest|unittest|runtests|tox|bin/test|run_tests|npm test|go test)\b")


@dataclass(frozen=True)
class Subject:
    """An attempt with what its diagnosis is made from."""

    lake: Lake
    journal: Journal
    attempt: Attempt
    known: dict[str, "Subject"] = field(default_factory=dict)
    """Other attempts by id. Diagnoses that share them read each verdict once."""

    @cached_property
    def steps(self) -> list[RecordedStep]:
        """Its steps in the order in which they began."""
        found = self.journal.steps(self.attempt.attempt_id)
        return sorted(found, key=lambda step: step.ordinal)

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
    known: dict[str, Subject] = {}

    def of(attempt_id: str) -> Insight | None:
        if journal is None:
            return None
        attempt = journal.attempt(attempt_id)
        if attempt is None or journal.pruned_at(attempt_id) is not None:
            return None
        try:
            return insight(Subject(lake, journal, attempt, known))
        except JournalError:
            return None

    return of


def draw_graph(graph: ExecutionStateGraph) -> tuple[GraphStep, ...]:
    """Return the steps of a graph with what they use."""
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
    """Return what is known of an attempt's failure; nothing if it is resolved.

    Raises:
        JournalError: a stored work tree cannot be read.
    """
    if subject.is_resolved:
        return ()
    written = writers(subject.patch, subject.steps, blobs(subject.lake))
    other = _find_resolved(subject)
    differs = _first_difference(subject, other) if other else None
    return (
        _diagnose_failure(subject),
        _origin_of_lines(subject, written),
        _evidence(subject, written),
        _difference(subject, other, differs),
        _next(subject, written, differs, lake_path),
    )


def _diagnose_failure(subject: Subject) -> DiagnosisPart:
    verdict, row = subject.verdict, subject.row
    lines = []
    if verdict is None:
        lines.append("The patch has no verdict yet." if subject.patch else "There is no patch.")
    else:
        reason = f": {verdict['reason']}" if verdict["reason"] else ""
        lines.append(f"The verdict is {verdict['outcome']}{reason}.")
        for column, what in (
            ("fail_to_pass_failure", "should pass and fails"),
            ("pass_to_pass_failure", "passed before and fails"),
        ):
            if names := verdict[column]:
                lines.append(f"{plural(len(names), 'test')} that {what}: {_some(names)}")
    if row is not None:
        detail = f", {row['detail']}" if row["detail"] else ""
        lines.append(f"The attempt ended as {row['outcome']}{detail}.")
    return DiagnosisPart("Failures", tuple(lines))


def _origin_of_lines(subject: Subject, written: Sequence[Written]) -> DiagnosisPart:
    title = "Origin of the lines"
    if not written:
        return DiagnosisPart(title, ("The attempt left no changed line.",))
    lines, steps = [], []
    for one in _find_concerned(subject, written)[:_NAMED]:
        size = f"{one.path} (+{one.added} -{one.removed})"
        if one.step is None:
            lines.append(f"{size}: no single step wrote it as it is")
            continue
        caller = _caller(subject.graph, one.step)
        asked = f", asked for by call {caller}" if caller else ""
        lines.append(f"{size}: step {one.step.place}, {_short(label(one.step))}{asked}")
        steps += [one.step.place, *([caller] if caller else [])]
    return DiagnosisPart(title, tuple(lines), tuple(dict.fromkeys(steps)))


def _find_concerned(subject: Subject, written: Sequence[Written]) -> list[Written]:
    """Return the files of a patch, those that the log of the failing tests names first."""
    log = subject.verdict["log_tail"] if subject.verdict else ""
    return sorted(written, key=lambda one: one.path not in log)


def _caller(graph: ExecutionStateGraph, step: RecordedStep) -> str | None:
    """Return the model call that asked for a step: the latest one that it depends on by talk."""
    place: str | None = step.place
    while place is not None and not _is_call(graph, place):
        flows = graph.get_flows(place)
        talks = [source for source in flows if any(n.startswith("talk:") for n in flows[source])]
        place = max(talks, key=graph.position, default=None)
    return place


def _is_call(graph: ExecutionStateGraph, place: str) -> bool:
    return any(name.startswith("model:") for name in graph.get_node(place).reads)


def _evidence(subject: Subject, written: Sequence[Written]) -> DiagnosisPart:
    """Return the tests that ran on the written lines, and what opened the gates."""
    title = "Evidence that let it pass"
    last = max((one.step.ordinal for one in written if one.step is not None), default=None)
    lines, steps = [], []
    after = [step for step in subject.steps if last is not None and step.ordinal > last]
    runs = [step for step in after if _is_test_run(step)]
    for step in runs[-_NAMED:]:
        view = of_step(from_record(step))
        lines.append(f"step {step.place}: {_short(label(step))}: {view.outcome or 'no exit code'}")
        steps.append(step.place)
    if written and not runs:
        lines.append("No test was run on these lines.")
    lines += _unseen(subject, runs)
    lines += _gates(subject.row)
    return DiagnosisPart(title, tuple(lines) or ("Nothing was left to judge.",), tuple(steps))


def _is_test_run(step: RecordedStep) -> bool:
    if step.kind not in ("command", "action") or step.result is None:
        return False
    request = step.request.decode("utf-8", "surrogatepass")
    return _TESTS.search(request) is not None or b'"tests":{' in step.result


def _unseen(subject: Subject, runs: Sequence[RecordedStep]) -> list[str]:
    """Return a line for the files of failing tests that no run after the change names."""
    verdict = subject.verdict
    if verdict is None or not runs:
        return []
    failing = [*verdict["fail_to_pass_failure"], *verdict["pass_to_pass_failure"]]
    files = dict.fromkeys(name.partition("::")[0] for name in failing)
    told = b"\n".join(step.request + (step.result or b"") for step in runs)
    unseen = [name for name in files if name.encode("utf-8", "replace") not in told]
    return [f"No such run names the failing tests of {_some(unseen)}."] if unseen else []


def _gates(row: Row | None) -> list[str]:
    report: dict[str, Any] = json.loads(row["report"]) if row and row["report"] else {}
    lines = []
    if verdict := report.get("agent_verdict"):
        lines.append(f"The agent's own verdict is {verdict}.")
    if closed := report.get("closed_gates"):
        lines.append(f"Gates that stayed closed: {', '.join(closed)}.")
    if report and not report.get("reproduced", True):
        lines.append("No new test was seen to fail before the change.")
    return lines


def _find_resolved(subject: Subject) -> Subject | None:
    """Return the resolved attempt at the same instance that is nearest to this one, or None.

    The nearest shares its beginning, else it is of the same repeat, else of the same arm.
    """
    own = subject.attempt
    others = subject.journal.at_instance(own.experiment, own.instance_id)
    for other in sorted(others, key=partial(_distance, own)):
        if other.attempt_id == own.attempt_id:
            continue
        new = Subject(subject.lake, subject.journal, other, subject.known)
        found = subject.known.setdefault(other.attempt_id, new)
        if found.is_resolved:
            return found
    return None


def _distance(own: Attempt, other: Attempt) -> tuple[bool, bool, bool, str]:
    is_related = _is_related(own, other)
    return not is_related, own.repeat != other.repeat, own.arm != other.arm, other.attempt_id


def _is_related(one: Attempt, other: Attempt) -> bool:
    """Return True if one was forked or derived from the other, or both from a third attempt."""
    family = {one.attempt_id, one.parent_id} & {other.attempt_id, other.parent_id}
    return bool(family - {None})


@dataclass(frozen=True)
class _Differing:
    """The first reply of an attempt that differs from another attempt's."""

    step: RecordedStep
    how: str
    is_shared: bool
    """True if the attempts share all that came before it."""


def _first_difference(subject: Subject, other: Subject) -> _Differing | None:
    """Return the first call that was answered otherwise.

    Paths of workspaces and durations of tests are part of results, so only replies are compared.
    """
    theirs = {step.place: step for step in other.steps}
    is_shared = _is_related(subject.attempt, other.attempt)
    for step in subject.steps:
        known = theirs.get(step.place)
        if step.kind != "model" or (known is not None and _message(known) == _message(step)):
            continue
        if known is None:
            return _Differing(step, "the other attempt has no such call", is_shared)
        is_same = known.digest == step.digest
        how = f"{'the same' if is_same else 'another'} request, answered by {_short(label(known))}"
        return _Differing(step, how, is_shared)
    return None


def _message(step: RecordedStep) -> Any:
    if step.result is None:
        return None
    return json.loads(step.result.decode("utf-8", "surrogatepass")).get("message")


def _difference(subject: Subject, other: Subject | None, found: _Differing | None) -> DiagnosisPart:
    title = "First difference from a resolved attempt"
    if other is None:
        return DiagnosisPart(title, ("No other attempt at this instance is resolved.",))
    lines = [f"{other.attempt.arm}, attempt {other.attempt.attempt_id[:12]}, is resolved."]
    if found is None:
        lines.append("Until this attempt ended, it gave the same replies.")
    else:
        step = found.step
        lines.append(f"First other reply: step {step.place}, {_short(label(step))}: {found.how}")
    if paths := differing(subject.patch, other.patch):
        lines.append(f"Its patch differs in {_some(paths)}.")
    return DiagnosisPart(title, tuple(lines), () if found is None else (found.step.place,))


def _next(
    subject: Subject, written: Sequence[Written], found: _Differing | None, lake_path: str | None
) -> DiagnosisPart:
    """Return the fork from the call that led to the difference, to the lines, or to the end."""
    title = "Forks to try"
    place = _turning_point(subject, written, found)
    if place is None:
        return DiagnosisPart(title, ("The attempt made no model call that could be made again.",))
    words = ["durabench", "fork", subject.attempt.attempt_id, "--at", place]
    words += ["--lake", lake_path] if lake_path else []
    kept = next(at for at, step in enumerate(subject.steps) if step.place == place)
    return DiagnosisPart(
        title,
        (
            f"Make call {place} again: {kept} of {plural(len(subject.steps), 'step')} are kept. "
            "--model and --options change what answers.",
        ),
        (place,),
        shlex.join(words),
    )


def _turning_point(
    subject: Subject, written: Sequence[Written], found: _Differing | None
) -> str | None:
    """Return the model call to make again."""
    if found is not None and found.is_shared:
        return found.step.place
    for one in _find_concerned(subject, written):
        if one.step is not None and (caller := _caller(subject.graph, one.step)):
            return caller
    calls = [step for step in subject.steps if step.kind == "model"]
    return calls[-1].place if calls else None


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more


def _short(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= 100 else f"{flat[:99]}…"
