"""Attempts as one log of Inspect, for its viewer."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any

from inspect_ai.log import (
    EvalConfig,
    EvalDataset,
    EvalLog,
    EvalMetric,
    EvalPlan,
    EvalPlanStep,
    EvalResults,
    EvalScore,
    EvalSpec,
    EvalStats,
)

from flows.formats import inspect_samples
from flows.formats.attempts import KEY, ExchangedAttempt
from flows.formats.filed import ResolvedRate
from flows.formats.inspect_samples import SCORER


def log(
    experiment: str, attempts: Sequence[ExchangedAttempt], rates: Mapping[str, ResolvedRate]
) -> Any:
    """Return attempts as a log.

    A sample is an instance, and with several arms `INSTANCE@ARM`. Rates are those of the report:
    over all planned cells.
    """
    every = [attempt.facts for attempt in attempts]
    arms = list(dict.fromkeys(str(one.arm) for one in every))
    ids = [one.instance_id if len(arms) == 1 else f"{one.instance_id}@{one.arm}" for one in every]
    samples = list(map(inspect_samples.sample, attempts, ids))
    starts = [one.started_at for one in every if one.started_at]
    created = min(starts, default=datetime.now(UTC)).isoformat()
    models = dict.fromkeys(one.model for one in attempts if one.model)
    return EvalLog(
        status="success",
        eval=EvalSpec(
            created=created,
            task=experiment,
            task_id=experiment if rates else attempts[0].digest,
            run_id=experiment,
            eval_id=experiment,
            dataset=EvalDataset(
                name=experiment,
                samples=len(set(ids)),
                sample_ids=sorted(set(ids)),
            ),
            model=", ".join(models) or "none/none",
            config=EvalConfig(epochs=1 + max(one.repeat or 0 for one in every)),
            packages={"durabench": version("durabench")},
            metadata={KEY: {"experiment": experiment}},
        ),
        plan=EvalPlan(name=experiment, steps=[EvalPlanStep(solver=arm) for arm in arms]),
        results=_results(attempts, rates),
        stats=_stats(created, samples),
        samples=samples,
    )


def _results(attempts: Sequence[ExchangedAttempt], rates: Mapping[str, ResolvedRate]) -> Any:
    scored: dict[str, int] = defaultdict(int)
    for attempt in attempts:
        facts = attempt.facts
        scored[str(facts.arm)] += facts.verdict not in (None, "infrastructure")
    return EvalResults(
        total_samples=sum(rate.planned for rate in rates.values()),
        completed_samples=len(attempts),
        scores=[
            EvalScore(
                name=arm,
                scorer=SCORER,
                scored_samples=scored[arm],
                unscored_samples=rate.planned - scored[arm],
                metrics={"accuracy": EvalMetric(name="accuracy", value=rate.value)},
            )
            for arm, rate in rates.items()
        ],
    )


def _stats(created: str, samples: Sequence[Any]) -> Any:
    usage: dict[str, Any] = {}
    for sample in samples:
        for model, own in sample.model_usage.items():
            usage[model] = usage[model] + own if model in usage else own
    ended = max((sample.completed_at for sample in samples if sample.completed_at), default=created)
    return EvalStats(started_at=created, completed_at=ended, model_usage=usage)
