"""Logs of Inspect, `.eval` and `.json`, as its own package reads them.

Values of its own types are not typed here.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from eval.types import EvaluationOutcome
from flows.display.errors import UsageError
from flows.formats import attempts, imported_arms, inspect_events, lake_rows, steps
from flows.formats.attempts import ExchangedAttempt, ReadFiles
from flows.storage.lake import Row

_LIMITS = {
    "time": "out_of_time",
    "working": "out_of_time",
    "message": "out_of_steps",
    "turn": "out_of_steps",
    "token": "out_of_budget",
    "cost": "out_of_budget",
    "operator": "interrupted",
}
"""Outcomes by the limit that ended a sample. All others count as gave up."""

_WORDS = {"c": 1.0, "i": 0.0, "p": 0.5, "n": 0.0, "yes": 1.0, "no": 0.0, "true": 1.0, "false": 0.0}
"""The scores that Inspect writes as text, in lower case."""


def load_package() -> ModuleType:
    """Return Inspect's module that reads and writes logs. The package is an extra.

    Raises:
        UsageError: the package is not installed.
    """
    try:
        import inspect_ai.log
    except ImportError:
        raise UsageError(
            "logs of Inspect need the package inspect-ai: pip install 'durabench[inspect]'"
        ) from None
    module: ModuleType = inspect_ai.log
    return module


class _Read(NamedTuple):
    """One sample and its log."""

    path: Path
    log: Any
    sample: Any


def read(paths: Sequence[Path], scorer: str | None) -> ReadFiles:
    """Read the samples of logs.

    Epochs are repeats. Of a task that was retried, the sample of the latest log counts. `scorer`
    names the score that decides, where a sample has several. 1 or C is resolved, and any smaller
    score is not.

    Raises:
        UsageError: the package is missing, or a file or a score cannot be used.
    """
    module = load_package()
    logs = {path: _log(module, path) for path in _files(module, paths)}
    found = _latest(logs)
    read_samples = [_attempt(one, scorer) for one in found]
    if partial := sum(0 < (_value(one, scorer) or 0) < 1 for one in found):
        imported_arms.tell(f"{partial} scores are between 0 and 1, and count as not resolved.")
    names = dict.fromkeys(log.eval.dataset.name or log.eval.task for log in logs.values())
    return ReadFiles(read_samples, ", ".join(names), _planned(logs))


def _files(module: ModuleType, paths: Sequence[Path]) -> Iterator[Path]:
    for path in paths:
        if not path.is_dir():
            yield path
            continue
        found = [
            Path(info.name.removeprefix("file://")) for info in module.list_eval_logs(str(path))
        ]
        if not found:
            raise UsageError(f"there is no log of Inspect in {path}")
        yield from sorted(found)


def _log(module: ModuleType, path: Path) -> Any:
    if not path.is_file():
        raise UsageError(f"{path} cannot be read: there is no such file")
    try:
        log = module.read_eval_log(str(path), resolve_attachments=True)
    except Exception as error:  # of any library behind the formats
        first = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise UsageError(f"{path}: no log of Inspect ({first})") from None
    if not log.samples:
        raise UsageError(f"{path} has no samples: run the task without --no-log-samples")
    return log


def _latest(logs: Mapping[Path, Any]) -> list[_Read]:
    """Return the samples. Of a sample that was tried again by a retry, only the last is kept."""
    found: dict[tuple[str, str, int], _Read] = {}
    for path, log in sorted(logs.items(), key=lambda item: (item[1].eval.created, str(item[0]))):
        for sample in log.samples:
            key = (log.eval.task_id or str(path), str(sample.id), sample.epoch)
            found[key] = _Read(path, log, sample)
    return list(found.values())


def _planned(logs: Mapping[Path, Any]) -> list[str]:
    """Return all samples that the tasks chose, unless the logs are of attempts of our own."""
    return [
        str(each)
        for log in logs.values()
        if attempts.KEY not in (log.eval.metadata or {})
        for each in log.eval.dataset.sample_ids or ()
    ]


def _attempt(read: _Read, scorer: str | None) -> ExchangedAttempt:
    log, sample = read.log, read.sample
    source = f"{read.path}, sample {sample.id}, epoch {sample.epoch}"
    model = "none" if log.eval.model == "none/none" else log.eval.model
    digest = sample.uuid or f"{log.eval.run_id}/{sample.id}/{sample.epoch}"
    try:
        own = attempts.of_extra(sample.metadata)
        lines = inspect_events.read_lines(sample.events)
        usage = _usage(sample, steps.calls(lines, model))
    except ValueError as error:
        raise UsageError(f"{source}: {error}") from None
    if own:
        return ExchangedAttempt(own, source, digest, lines)
    outcome, verdict, detail = _ending(sample, _value(read, scorer))
    metadata = sample.metadata or {}
    repo, difficulty = metadata.get("repo"), metadata.get("difficulty")
    plan = [step.solver for step in log.plan.steps]
    facts = attempts.describe(
        source,
        usage,
        agent=log.eval.solver or (plan[-1] if plan else log.eval.task),
        model=model,
        instance_id=str(sample.id),
        repo=repo if isinstance(repo, str) and repo else lake_rows.repository(str(sample.id)),
        outcome=outcome,
        detail=detail,
        difficulty=difficulty if isinstance(difficulty, str) else None,
        started_at=datetime.fromisoformat(sample.started_at) if sample.started_at else None,
        duration_s=sample.total_time,
        patch=_patch(read, scorer),
        verdict=verdict,
        versions=log.eval.packages,
    )
    order = (log.eval.created, f"{sample.epoch:06}")
    return ExchangedAttempt(facts, source, digest, lines, order=order)


def _ending(sample: Any, value: float | None) -> tuple[str, EvaluationOutcome | None, str]:
    """Return outcome, verdict and detail of a sample with this score."""
    verdict: EvaluationOutcome | None = None
    if value is not None:
        verdict = "resolved" if value >= 1 else "unresolved"
    if sample.invalidation is not None:
        return "infrastructure", None, "the sample was invalidated"
    if sample.error is not None:
        return "gave_up" if verdict else "infrastructure", verdict, sample.error.message
    if sample.limit is not None:
        outcome = _LIMITS.get(sample.limit.type, "gave_up")
        detail = sample.limit.reason or f"limit: {sample.limit.type} {sample.limit.limit:g}"
        return outcome, None if outcome == "interrupted" else verdict, detail
    return "submitted", verdict, f"sample of epoch {sample.epoch}"


def _score(read: _Read, scorer: str | None) -> Any:
    """Return the score that decides; None if there is none.

    Raises:
        UsageError: there are several, and none of them is chosen.
    """
    scores = read.sample.scores or {}
    if not scores:
        return None
    if scorer in scores:
        return scores[scorer]
    if scorer is not None or len(scores) > 1:
        known = ", ".join(sorted(scores))
        raise UsageError(
            f"{read.path}: sample {read.sample.id} has the scores {known}: choose one with --scorer"
        )
    return next(iter(scores.values()))


def _value(read: _Read, scorer: str | None) -> float | None:
    """Return the score that decides as a number; None if there is none.

    Raises:
        UsageError: it is no single number, or more than 1.
    """
    score = _score(read, scorer)
    if score is None:
        return None
    value = score.value
    if isinstance(value, str):
        value = _WORDS.get(value.strip().lower(), value)
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise UsageError(
            f"{read.path}: the score of sample {read.sample.id} is {score.value!r}, and must be a "
            "number or C, I, P or N; choose another with --scorer"
        ) from None
    if number > 1:
        raise UsageError(
            f"{read.path}: the score of sample {read.sample.id} is {number:g}, and 1 is the most "
            "that a resolved sample gets; choose another with --scorer"
        )
    return None if math.isnan(number) else number


def _patch(read: _Read, scorer: str | None) -> str | None:
    """Return the patch that a scorer of SWE-bench puts beside its score; None if there is none."""
    score = _score(read, scorer)
    patch = (score.metadata or {}).get("model_patch") if score is not None else None
    return patch if isinstance(patch, str) else None


def _usage(sample: Any, calls: Sequence[tuple[Row, int]]) -> Row:
    """Return the usage of a sample: the sum of the agent's calls, without those of scorers.

    A log without events has only the sums of all calls.
    """
    if calls or sample.events:
        return attempts.sum_usage(calls, {}, None)
    each = [inspect_events.tokens(usage) for usage in sample.model_usage.values()]
    if not each:
        return {}
    costs = [usage.total_cost for usage in sample.model_usage.values()]
    return {
        **{name: attempts.total(one[name] for one in each) for name in attempts.TOKENS},
        "cost_usd": None if None in costs else attempts.amount(sum(costs), "total_cost"),
    }
