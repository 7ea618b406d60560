"""Write attempts of other systems with their steps to the lake, arms side by side."""

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from eval.digests import canonical_digest
from flows.display.errors import UsageError
from flows.experiments import records
from flows.experiments.records import NO_PROGRAM
from flows.formats import imported_arms, lake_rows
from flows.formats.cells import MOST_REPEATS
from flows.formats.comparisons import Comparisons
from flows.formats.imported_arms import ImportedArm, Summary
from flows.formats.traces import Harness, Trace, TracedCall, TracedStep
from flows.storage.files import make_readable
from flows.storage.lake import Lake, Row

UNKNOWN = "unknown"
"""Provider of attempts whose calls came with an import."""


@dataclass(frozen=True)
class ImportRequest:
    """Name, dataset and arm of an import."""

    experiment: str
    dataset: str
    """Name of the dataset in reports."""
    arm: str | None = None
    """The name of the arm of all traces; None takes what the files state."""
    planned: Sequence[str] = ()
    """Further instances that were to be tried."""


def file(
    traces: Sequence[Trace],
    request: ImportRequest,
    lake_path: str | None,
    comparisons: Comparisons | None = None,
) -> list[Summary]:
    """Write traces under a name. Return their arms in the order of their labels.

    An arm replaces an earlier import of it under the name.

    Raises:
        UsageError: two traces are the same, or the name or a comparison cannot be used; nothing was
            written.
    """
    imported_arms.check_name(request.experiment)
    by_label = _by_label(traces, request.arm)
    lake = Lake.open(lake_path)
    with imported_arms.alone(lake, request.experiment):
        names = imported_arms.arm_names(by_label, imported_arms.declared(lake, request.experiment))
        filed = {
            label: _Arm(request, names[label], label, _numbered(own))
            for label, own in by_label.items()
        }
        planned = imported_arms.declare(
            lake,
            request.experiment,
            [arm.declared() for arm in filed.values()],
            comparisons=comparisons,
        )
        return [arm.write(lake, planned) for arm in filed.values()]


def _by_label(traces: Sequence[Trace], arm: str | None) -> dict[str, list[Trace]]:
    """Return the traces of each arm.

    An arm is a harness with a model. Its release is part of the label if a harness has several.
    """
    releases = defaultdict(set)
    for trace in traces:
        releases[trace.harness.agent, trace.harness.model].add(trace.harness.version)
    found = defaultdict(list)
    for trace in traces:
        harness = trace.harness
        has_several = len(releases[harness.agent, harness.model]) > 1
        found[arm or trace.arm or _label(harness, has_several)].append(trace)
    return dict(sorted(found.items()))


def _label(harness: Harness, with_version: bool) -> str:
    agent = f"{harness.agent} {harness.version}" if with_version else harness.agent
    return " · ".join(filter(None, [agent.strip(), harness.model])) or "unnamed"


def _numbered(traces: Sequence[Trace]) -> list[Trace]:
    """Return the traces with the number of each at its cell.

    Raises:
        UsageError: two of them are the same, have the same number, or there are too many.
    """
    _check_different(traces)
    taken: dict[tuple[str, int], str] = {}
    for trace in traces:
        if trace.repeat is None:
            continue
        other = taken.setdefault((trace.instance_id, trace.repeat), trace.source)
        if other != trace.source:
            where = f"attempt {trace.repeat} at {trace.instance_id}"
            raise UsageError(f"{other} and {trace.source} are both {where}: give one of them")
    numbered = []
    for trace in sorted(traces, key=lambda one: (one.instance_id, one.order, one.source)):
        repeat = trace.repeat
        if repeat is None:
            repeat = next(n for n in range(len(traces)) if (trace.instance_id, n) not in taken)
            taken[trace.instance_id, repeat] = trace.source
        if repeat > MOST_REPEATS:
            raise UsageError(
                f"{trace.source} is attempt {repeat} at {trace.instance_id}: an arm has at most "
                f"{MOST_REPEATS + 1} per instance"
            )
        numbered.append(replace(trace, repeat=repeat))
    return numbered


def _check_different(traces: Iterable[Trace]) -> None:
    seen: dict[tuple[str, str], str] = {}
    for trace in traces:
        other = seen.setdefault((trace.instance_id, trace.digest), trace.source)
        if other != trace.source:
            raise UsageError(f"{other} and {trace.source} are the same attempt: give one of them")


class _Arm:
    """One arm and its traces."""

    def __init__(
        self, request: ImportRequest, name: str, label: str, traces: Sequence[Trace]
    ) -> None:
        self._request, self._name, self._label = request, name, label
        self._traces = {
            canonical_digest(
                [request.experiment, name, trace.instance_id, trace.repeat, trace.digest]
            )[:32]: trace
            for trace in traces
        }

    def declared(self) -> ImportedArm:
        """Return the declaration of the arm."""
        traces = self._traces.values()
        ids = tuple(dict.fromkeys([*(t.instance_id for t in traces), *self._request.planned]))
        graded = {
            f"{unit}{imported_arms.IMPORTED}" for unit, t in self._traces.items() if t.verdict
        }
        return ImportedArm(
            self._name,
            agent=_all_of(trace.harness.agent for trace in traces),
            model=_all_of(trace.harness.model for trace in traces) or "unknown",
            environment="imported",
            dataset=self._request.dataset,
            dataset_digest=canonical_digest(sorted(ids)),
            instance_ids=ids,
            label=self._label,
            units=frozenset({*self._traces, *graded}),
            repeats=1 + max(trace.repeat or 0 for trace in traces),
        )

    def write(self, lake: Lake, planned: int) -> Summary:
        """Write the rows of the arm. Return its summary."""
        for attempt_id, trace in self._traces.items():
            self._write(lake, attempt_id, trace)
        traces = self._traces.values()
        amounts = (lake_rows.metered(t.usage.cost_usd, t.usage.model_calls) for t in traces)
        costs = [cost for cost in amounts if cost is not None]
        return Summary(
            self._name,
            planned * (1 + max(trace.repeat or 0 for trace in traces)),
            found=len(traces),
            resolved=sum(trace.verdict == "resolved" for trace in traces),
            cost_usd=sum(costs) if costs else None,
            unpriced=len(traces) - len(costs),
            label=self._label,
        )

    def _write(self, lake: Lake, attempt_id: str, trace: Trace) -> None:
        """Write one attempt. `attempts` is last, so that one that is listed is complete."""
        where = (self._request.experiment, self._name)
        cell = {
            "attempt_id": attempt_id,
            "instance_id": trace.instance_id,
            "repeat": trace.repeat,
        }
        placed = _placed(trace.steps)
        calls = [_call_row(cell, seq, s, s.call) for seq, s in placed if s.call is not None]
        lake.write("llm_calls", *where, attempt_id, calls)
        lake.write("steps", *where, attempt_id, (_step_row(cell, seq, s) for seq, s in placed))
        patch = trace.patch
        if patch is not None:
            row = records.patch_row(cell, self._name, patch)
            lake.write("predictions", *where, attempt_id, [row])
        if trace.verdict is not None:
            row = lake_rows.evaluation_row(
                cell,
                trace.verdict,
                harness_version="unknown",
                reason=make_readable(trace.reason),
                patch_sha256="" if patch is None else records.patch_sha256(patch),
            )
            lake.write("evaluations", *where, f"{attempt_id}{imported_arms.IMPORTED}", [row])
        lake.write("attempts", *where, attempt_id, [_attempt_row(cell, trace)])


def _attempt_row(cell: Row, trace: Trace) -> Row:
    harness, usage = trace.harness, trace.usage
    own = {harness.agent: harness.version} if harness.version else {}
    return {
        **lake_rows.attempt_columns(
            cell,
            trace.repo,
            agent=harness.agent,
            model=harness.model or "unknown",
            provider=UNKNOWN,
        ),
        "difficulty": trace.difficulty,
        "outcome": trace.outcome,
        "detail": make_readable(trace.detail),
        **records.NO_REPORT,
        **NO_PROGRAM,
        "started_at": trace.started_at,
        "duration_s": trace.duration_s,
        "model_calls": usage.model_calls,
        "unpriced_calls": usage.unpriced_calls,
        **usage.tokens,
        "cost_usd": usage.cost_usd,
        "billed_usd": None,
        "versions": json.dumps({**own, **trace.versions}),
    }


def _placed(steps: Iterable[TracedStep]) -> list[tuple[int, TracedStep]]:
    """Return each step with its number in its scope."""
    counts: Counter[str] = Counter()
    placed = []
    for step in steps:
        placed.append((counts[step.scope], step))
        counts[step.scope] += 1
    return placed


def _call_row(cell: Row, seq: int, step: TracedStep, call: TracedCall) -> Row:
    return {
        **cell,
        "scope": step.scope,
        "seq": seq,
        "role": call.role,
        "model": call.model or "unknown",
        **call.tokens,
        "cost_usd": call.cost_usd,
        "cost_source": "unknown" if call.cost_usd is None else "recorded",
        "finish_reason": call.finish_reason,
        "latency_s": call.latency_s,
        "retries": call.retries,
        "started_at": step.started_at,
    }


def _step_row(cell: Row, seq: int, step: TracedStep) -> Row:
    is_command = step.kind == "command"
    request = make_readable(json.dumps(step.request, ensure_ascii=False))
    return {
        **cell,
        "scope": step.scope,
        "seq": seq,
        "kind": step.kind,
        "request": request,
        "request_digest": canonical_digest(step.request),
        "result": records.output_json(step.result)
        if is_command
        else records.content_json(step.result),
        "exit_code": step.exit_code,
        "output_bytes": len(step.result.encode("utf-8", "replace")) if is_command else None,
        "timed_out": False,
        "started_at": step.started_at,
        "duration_s": step.duration_s,
    }


def _all_of(names: Iterable[str]) -> str:
    return ", ".join(sorted(set(filter(None, names))))
