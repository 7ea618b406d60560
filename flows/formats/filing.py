"""Write attempts of other systems with their steps to the lake, arms side by side."""

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from eval.digests import canonical_digest
from flows.display.errors import UsageError
from flows.formats import imported_arms, lake_rows
from flows.formats.attempts import TOKENS, AttemptFacts, ExchangedAttempt, ReadFiles, total
from flows.formats.imported_arms import IMPORTED, Comparisons, ImportedArm, Summary
from flows.formats.table_columns import MOST_REPEATS
from flows.storage.files import patch_row, patch_sha256
from flows.storage.lake import Lake, Row


def file(
    files: ReadFiles,
    experiment: str,
    arm: str | None,
    lake_path: str | None,
    comparisons: Comparisons | None = None,
    *,
    together: bool = False,
) -> list[Summary]:
    """Write attempts under a name. Return their arms in the order of their labels.

    `arm` is the name of the arm of all attempts; None takes what the files state. An arm replaces
    an earlier import of it under the name. With `together`, each table has one file per arm, which
    is for a lake that nothing is added to.

    Raises:
        UsageError: two attempts are the same, or the name or a comparison cannot be used; nothing
            was written.
    """
    imported_arms.check_name(experiment)
    by_label = group_by_label(files.attempts, arm)
    lake = Lake.open(lake_path)
    with imported_arms.alone(lake, experiment):
        names = imported_arms.arm_names(by_label, imported_arms.load_arms(lake, experiment))
        units = {
            label: {
                _name_unit(experiment, names[label], attempt): attempt
                for attempt in _number(attempts)
            }
            for label, attempts in by_label.items()
        }
        planned = imported_arms.declare(
            lake,
            experiment,
            [_declare(files, names[label], label, attempts) for label, attempts in units.items()],
            comparisons=comparisons,
        )
        for label, attempts in units.items():
            for batch in [attempts] if together else [{unit: attempts[unit]} for unit in attempts]:
                _write(lake, experiment, names[label], batch)
        return [
            _summarize(names[label], label, planned, [a.facts for a in attempts.values()])
            for label, attempts in units.items()
        ]


def group_by_label(
    attempts: Sequence[ExchangedAttempt], arm: str | None
) -> dict[str, list[ExchangedAttempt]]:
    """Return the attempts of each arm.

    An arm is an agent with a model. Its release is part of the label if an agent has several. If
    several jobs have the same of them, each job is an arm that has its name.
    """
    releases, jobs, agents = (defaultdict[Any, set[Any]](set) for _ in range(3))
    for attempt in attempts:
        agent, model = attempt.facts.agent, attempt.facts.model
        releases[agent, model].add(attempt.version)
        jobs[agent, model, attempt.version].add(attempt.job)
        agents[attempt.job].add((agent, model, attempt.version))
    by_label = defaultdict(list)
    for attempt in attempts:
        agent, model, job = attempt.facts.agent, attempt.facts.model, attempt.job
        named = f"{agent} {attempt.version}" if len(releases[agent, model]) > 1 else agent
        parts = [named.strip(), "" if model == "unknown" else model]
        if len(jobs[agent, model, attempt.version]) > 1:
            parts = [job, *(parts if len(agents[job]) > 1 else ())]
        label = " · ".join(filter(None, parts))
        by_label[arm or attempt.facts.arm or label or "unnamed"].append(attempt)
    return dict(sorted(by_label.items()))


def _number(attempts: Sequence[ExchangedAttempt]) -> list[ExchangedAttempt]:
    """Return the attempts with the number of each at its cell."""
    sources: dict[tuple[str, str | None], str] = {}
    taken: dict[tuple[str, int], str] = {}
    for attempt in attempts:
        content = (attempt.facts.instance_id, attempt.digest)
        other = sources.setdefault(content, attempt.source)
        if other != attempt.source:
            raise UsageError(f"{other} and {attempt.source} are the same attempt: give one of them")
    for attempt in attempts:
        instance_id, repeat = attempt.facts.instance_id, attempt.facts.repeat
        if repeat is None:
            continue
        other = taken.setdefault((instance_id, repeat), attempt.source)
        if other != attempt.source:
            where = f"attempt {repeat} at {instance_id}"
            raise UsageError(f"{other} and {attempt.source} are both {where}: give one of them")
    numbered = []
    for attempt in sorted(attempts, key=lambda a: (a.facts.instance_id, a.order, a.source)):
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


def _name_unit(experiment: str, arm: str, attempt: ExchangedAttempt) -> str:
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
    ids = tuple(dict.fromkeys([*(fact.instance_id for fact in facts), *files.planned]))
    models = (fact.model for fact in facts if fact.model != "unknown")
    graded = {f"{unit}{IMPORTED}" for unit, attempt in units.items() if attempt.facts.verdict}
    return ImportedArm(
        name,
        agent=_join_names(fact.agent for fact in facts),
        model=_join_names(models) or "unknown",
        environment="imported",
        dataset=files.dataset,
        dataset_digest=files.dataset_digest or canonical_digest(sorted(ids)),
        instance_ids=ids,
        label=label,
        units=frozenset({*units, *graded}),
        repeats=_count_repeats(facts),
    )


def _summarize(name: str, label: str, planned: int, facts: Sequence[AttemptFacts]) -> Summary:
    amounts = (lake_rows.get_metered_usd(fact.cost_usd, fact.model_calls) for fact in facts)
    costs = [cost for cost in amounts if cost is not None]
    return Summary(
        name,
        planned * _count_repeats(facts),
        found=len(facts),
        resolved=sum(fact.verdict == "resolved" for fact in facts),
        cost_usd=sum(costs) if costs else None,
        unpriced=len(facts) - len(costs),
        label=label,
        calls=total(fact.model_calls for fact in facts),
        calls_without_cost={
            fact.instance_id: fact.unpriced_calls for fact in facts if fact.unpriced_calls
        },
    )


def _count_repeats(facts: Iterable[AttemptFacts]) -> int:
    return 1 + max(fact.repeat or 0 for fact in facts)


def _write(lake: Lake, experiment: str, arm: str, batch: Mapping[str, ExchangedAttempt]) -> None:
    """Write some attempts by unit, to the files of the first one.

    `attempts` is last, so that a listed attempt is complete.
    """
    rows = defaultdict[str, list[Row]](list)
    for unit, attempt in batch.items():
        for table, row in _list_rows(arm, unit, attempt):
            rows[table].append(row)
    name = next(iter(batch))
    for table in sorted(rows, key=lambda table: table == "attempts"):
        unit = f"{name}{IMPORTED}" if table == "evaluations" else name
        lake.write(table, experiment, arm, unit, rows[table])


def _list_rows(arm: str, unit: str, attempt: ExchangedAttempt) -> Iterator[tuple[str, Row]]:
    """Yield the rows of one attempt, each with its table."""
    facts = attempt.facts
    cell = {"attempt_id": unit, "instance_id": facts.instance_id, "repeat": facts.repeat}
    if attempt.lines:
        from flows.formats import step_rows  # the package of ATIF takes a tenth of a second

        for row, _ in step_rows.calls(attempt.lines, facts.model):
            yield "llm_calls", {**cell, **row}
        for row in step_rows.rows(attempt.lines, cell):
            yield "steps", row
    patch = facts.exact_patch
    if patch is not None:
        yield "predictions", patch_row(cell, arm, patch)
    if facts.verdict is not None:
        yield (
            "evaluations",
            lake_rows.evaluation_row(
                cell,
                facts.verdict,
                harness_version=attempt.graded_by,
                tests=attempt.tests,
                reason=facts.reason,
                reward=facts.reward,
                patch_sha256="" if patch is None else patch_sha256(patch),
            ),
        )
    release = {facts.agent: attempt.version} if attempt.version else {}
    same = ("outcome", "detail", "difficulty", "started_at", "duration_s", "model_calls",
            "unpriced_calls", *TOKENS, "cost_usd")  # fmt: skip
    yield (
        "attempts",
        {
            **lake_rows.attempt_columns(
                cell, facts.repo, agent=facts.agent, model=facts.model, provider="unknown"
            ),
            **{name: getattr(facts, name) for name in same},
            "versions": json.dumps({**release, **facts.versions}),
        },
    )


def _join_names(names: Iterable[str]) -> str:
    return ", ".join(sorted(set(filter(None, names))))
