"""Write attempts of other systems with their steps to the lake, arms side by side."""

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from eval.digests import canonical_digest
from flows.display.errors import UsageError
from flows.experiments import records
from flows.experiments.records import NO_PROGRAM
from flows.formats import imported_arms, lake_rows
from flows.formats.attempts import TOKENS, AttemptFacts, ExchangedAttempt, ReadFiles, total
from flows.formats.imported_arms import IMPORTED, Comparisons, ImportedArm, Summary
from flows.formats.table_columns import MOST_REPEATS
from flows.storage.lake import Lake, Row


def file(
    files: ReadFiles,
    experiment: str,
    arm: str | None,
    lake_path: str | None,
    comparisons: Comparisons | None = None,
) -> list[Summary]:
    """Write attempts under a name. Return their arms in the order of their labels.

    `arm` is the name of the arm of all attempts; None takes what the files state. An arm replaces
    an earlier import of it under the name.

    Raises:
        UsageError: two attempts are the same, or the name or a comparison cannot be used; nothing
            was written.
    """
    imported_arms.check_name(experiment)
    by_label = _by_label(files.attempts, arm)
    lake = Lake.open(lake_path)
    with imported_arms.alone(lake, experiment):
        names = imported_arms.arm_names(by_label, imported_arms.load_arms(lake, experiment))
        units = {
            label: {_unit(experiment, names[label], one): one for one in _number(own)}
            for label, own in by_label.items()
        }
        planned = imported_arms.declare(
            lake,
            experiment,
            [_declare(files, names[label], label, own) for label, own in units.items()],
            comparisons=comparisons,
        )
        for label, own in units.items():
            for unit, attempt in own.items():
                _write(lake, experiment, names[label], unit, attempt)
        return [
            _summary(names[label], label, planned, [one.facts for one in own.values()])
            for label, own in units.items()
        ]


def _by_label(
    attempts: Sequence[ExchangedAttempt], arm: str | None
) -> dict[str, list[ExchangedAttempt]]:
    """Return the attempts of each arm.

    An arm is an agent with a model. Its release is part of the label if an agent has several.
    """
    releases = defaultdict(set)
    for attempt in attempts:
        releases[attempt.facts.agent, attempt.facts.model].add(attempt.version)
    found = defaultdict(list)
    for attempt in attempts:
        agent, model = attempt.facts.agent, attempt.facts.model
        if len(releases[agent, model]) > 1:
            agent = f"{agent} {attempt.version}"
        label = " · ".join(filter(None, [agent.strip(), "" if model == "unknown" else model]))
        found[arm or attempt.facts.arm or label or "unnamed"].append(attempt)
    return dict(sorted(found.items()))


def _number(attempts: Sequence[ExchangedAttempt]) -> list[ExchangedAttempt]:
    """Return the attempts with the number of each at its cell.

    Raises:
        UsageError: two of them are the same, have the same number, or there are too many.
    """
    _check_different(attempts)
    taken: dict[tuple[str, int], str] = {}
    for attempt in attempts:
        instance_id, repeat = attempt.facts.instance_id, attempt.facts.repeat
        if repeat is None:
            continue
        other = taken.setdefault((instance_id, repeat), attempt.source)
        if other != attempt.source:
            where = f"attempt {repeat} at {instance_id}"
            raise UsageError(f"{other} and {attempt.source} are both {where}: give one of them")
    numbered = []
    for attempt in sorted(attempts, key=lambda one: (one.facts.instance_id, one.order, one.source)):
        instance_id, repeat = attempt.facts.instance_id, attempt.facts.repeat
        if repeat is None:
            repeat = next(n for n in range(len(attempts)) if (instance_id, n) not in taken)
            taken[instance_id, repeat] = attempt.source
        if repeat > MOST_REPEATS:
            raise UsageError(
                f"{attempt.source} is attempt {repeat} at {instance_id}: an arm has at most "
                f"{MOST_REPEATS + 1} per instance"
            )
        facts = attempt.facts.model_copy(update={"repeat": repeat})
        numbered.append(replace(attempt, facts=facts))
    return numbered


def _check_different(attempts: Iterable[ExchangedAttempt]) -> None:
    seen: dict[tuple[str, str | None], str] = {}
    for attempt in attempts:
        other = seen.setdefault((attempt.facts.instance_id, attempt.digest), attempt.source)
        if other != attempt.source:
            raise UsageError(f"{other} and {attempt.source} are the same attempt: give one of them")


def _unit(experiment: str, arm: str, attempt: ExchangedAttempt) -> str:
    """Return the id of an attempt."""
    facts = attempt.facts
    if attempt.digest is None:
        patch = facts.exact_patch
        return imported_arms.prediction_id(experiment, arm, facts.instance_id, patch)
    cell = [facts.instance_id, facts.repeat]
    return canonical_digest([experiment, arm, *cell, attempt.digest])[:32]


def _declare(
    files: ReadFiles, name: str, label: str, units: Mapping[str, ExchangedAttempt]
) -> ImportedArm:
    facts = [attempt.facts for attempt in units.values()]
    ids = tuple(dict.fromkeys([*(one.instance_id for one in facts), *files.planned]))
    graded = {f"{unit}{IMPORTED}" for unit, attempt in units.items() if attempt.facts.verdict}
    return ImportedArm(
        name,
        agent=_all_of(one.agent for one in facts),
        model=_all_of(one.model for one in facts if one.model != "unknown") or "unknown",
        environment="imported",
        dataset=files.dataset,
        dataset_digest=files.dataset_digest or canonical_digest(sorted(ids)),
        instance_ids=ids,
        label=label,
        units=frozenset({*units, *graded}),
        repeats=_repeats(facts),
    )


def _summary(name: str, label: str, planned: int, facts: Sequence[AttemptFacts]) -> Summary:
    amounts = (lake_rows.get_metered_usd(one.cost_usd, one.model_calls) for one in facts)
    costs = [cost for cost in amounts if cost is not None]
    return Summary(
        name,
        planned * _repeats(facts),
        found=len(facts),
        resolved=sum(one.verdict == "resolved" for one in facts),
        cost_usd=sum(costs) if costs else None,
        unpriced=len(facts) - len(costs),
        label=label,
        calls=total(one.model_calls for one in facts),
        calls_without_cost={
            one.instance_id: one.unpriced_calls for one in facts if one.unpriced_calls
        },
    )


def _repeats(facts: Iterable[AttemptFacts]) -> int:
    return 1 + max(one.repeat or 0 for one in facts)


def _write(lake: Lake, experiment: str, arm: str, unit: str, attempt: ExchangedAttempt) -> None:
    """Write one attempt. `attempts` is last, so that one that is listed is complete."""
    facts, where = attempt.facts, (experiment, arm)
    cell = {"attempt_id": unit, "instance_id": facts.instance_id, "repeat": facts.repeat}
    if attempt.lines:
        from flows.formats import step_rows  # the package of ATIF takes a tenth of a second

        calls = step_rows.calls(attempt.lines, facts.model)
        lake.write("llm_calls", *where, unit, ({**cell, **row} for row, _ in calls))
        lake.write("steps", *where, unit, step_rows.rows(attempt.lines, cell))
    patch = facts.exact_patch
    if patch is not None:
        lake.write("predictions", *where, unit, [records.patch_row(cell, arm, patch)])
    if facts.verdict is not None:
        row = lake_rows.evaluation_row(
            cell,
            facts.verdict,
            harness_version=attempt.graded_by,
            tests=attempt.tests,
            reason=facts.reason,
            patch_sha256="" if patch is None else records.patch_sha256(patch),
        )
        lake.write("evaluations", *where, f"{unit}{IMPORTED}", [row])
    lake.write("attempts", *where, unit, [_attempt_row(cell, attempt)])


def _attempt_row(cell: Row, attempt: ExchangedAttempt) -> Row:
    facts = attempt.facts
    own = {facts.agent: attempt.version} if attempt.version else {}
    same = ("outcome", "detail", "difficulty", "started_at", "duration_s", "model_calls",
            "unpriced_calls", *TOKENS, "cost_usd")  # fmt: skip
    return {
        **lake_rows.attempt_columns(
            cell, facts.repo, agent=facts.agent, model=facts.model, provider="unknown"
        ),
        **records.NO_REPORT,
        **NO_PROGRAM,
        **{name: getattr(facts, name) for name in same},
        "billed_usd": None,
        "versions": json.dumps({**own, **facts.versions}),
    }


def _all_of(names: Iterable[str]) -> str:
    return ", ".join(sorted(set(filter(None, names))))
