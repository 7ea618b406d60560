"""Compare the results of any systems, without writing their attempts to the lake."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Literal

from flows.display.errors import UsageError
from flows.formats import comparison_notes, filing, imported_arms, recognition
from flows.formats.attempts import ExchangedAttempt, ReadFiles
from flows.formats.imported_arms import Comparisons
from flows.storage import report_files
from flows.storage.lake import Lake
from reports.format import listing
from reports.types import AnalysisPlan, Report

if TYPE_CHECKING:
    from flows.formats.exports import DeclaredExperiment

By = Literal["model", "harness"]

_COMMON_NAMES = frozenset({"all_preds", "preds", "report", "results", "logs", "trajectory"})
"""Names of files that say nothing. The folder names the results instead."""


@dataclass(frozen=True)
class ComparedResult:
    """The results of one argument."""

    name: str
    files: ReadFiles
    instances: frozenset[str]
    """The instances that it tried or was to try."""
    declared: "DeclaredExperiment | None" = None
    """What it declares, if it is an experiment."""


def compare(
    arguments: Sequence[str],
    *,
    by: By | None = None,
    baseline: str | None = None,
    margin: float | None = None,
    lake_path: str | None = None,
) -> Report:
    """Return the report of several results, on the instances that all of them have.

    An argument is a path or an experiment of the lake, and may be NAME=ARGUMENT. Each is an arm
    with its name, or one arm per agent and model if it has several. `by` makes an arm of each model
    or of each agent instead. Of two arms, the first is the baseline. Of more, a given `baseline` is
    compared with each other arm. Otherwise comparisons that experiments declare stay declared.
    Experiments alone also keep their arms.

    Raises:
        UsageError: an argument cannot be used, an arm is unknown, or no instance is common.
    """
    lake = Lake.existing(lake_path)
    if by is None and margin is None and _are_experiments(arguments, lake):
        report = _read_experiments(arguments, baseline, lake)
        return replace(report, notes=(*comparison_notes.describe_need(report), *report.notes))
    parts = [_read_part(argument, lake) for argument in arguments]
    _require_names(part.name for part in parts)
    common = frozenset.intersection(*(part.instances for part in parts))
    if not common:
        examples = listing([f"{part.name} has {min(part.instances)}" for part in parts])
        raise UsageError(f"the results have no common instance to compare: {examples}")
    arms = _name_arms(parts, common, by)
    if len(arms) < 2:
        raise UsageError(
            f"there is one arm only ({', '.join(arms)}), and two are needed: name further results"
        )
    dataset = ", ".join(dict.fromkeys(part.files.dataset for part in parts))
    declared = None
    if by is None and baseline is None and margin is None:
        declared = _find_declared(parts, arms)
    report = _build(arms, common, dataset, baseline, margin, declared)
    if declared and not any(part.declared and part.declared.is_import for part in parts):
        report = comparison_notes.say_declared_before(report)
    notes = (
        *comparison_notes.describe_instances({p.name: p.instances for p in parts}, common),
        *comparison_notes.describe_simulated(arms),
        *comparison_notes.describe_unknown(arms),
        *comparison_notes.describe_settings(arms),
        *comparison_notes.describe_need(report),
    )
    return replace(report, notes=(*notes, *report.notes))


def _are_experiments(arguments: Sequence[str], lake: Lake) -> bool:
    experiments = lake.experiments()
    return all(name in experiments and not _exists(name) for name in arguments)


def _read_experiments(names: Sequence[str], baseline: str | None, lake: Lake) -> Report:
    if len(names) == 1:
        return report_files.read(lake, names[0], baseline)
    return report_files.read_several(lake, names, baseline)


def _read_part(argument: str, lake: Lake) -> ComparedResult:
    """Read an argument."""
    name, place = "", argument
    if not _exists(argument) and "=" in argument:
        name, _, place = argument.partition("=")
    path, is_path = Path(place), _exists(place)
    files, declared = (recognition.read(path), None) if is_path else _read_experiment(place, lake)
    instances = frozenset([*(a.facts.instance_id for a in files.attempts), *files.planned])
    if not files.attempts:
        raise UsageError(f"{place} has no attempt to compare")
    name = name or (_name_path(path) if is_path else place)
    return ComparedResult(name, files, instances, declared)


def _exists(place: str) -> bool:
    """Return True if there is such a path."""
    try:
        return bool(place) and Path(place).exists()
    except OSError:  # no path can be as long
        return False


def _read_experiment(name: str, lake: Lake) -> "tuple[ReadFiles, DeclaredExperiment]":
    if name not in lake.experiments():
        raise UsageError(
            f"{name[:200] or 'an empty name'} is neither a file, "
            f"a folder nor an experiment of the lake {lake.root}"
        )
    from flows.formats import exports  # the journal takes a third of a second to import

    with lake.reading():
        declared = exports.read_declared(lake, name)
    found = list(exports.read_attempts(lake, name, with_steps=False))
    return ReadFiles(found, declared.dataset, declared.instances), declared


def _name_path(path: Path) -> str:
    """Return the name of a folder, or of a file without its ending."""
    absolute = path.resolve()
    name = absolute.name if absolute.is_dir() else absolute.name.partition(".")[0]
    is_common = absolute.is_file() and name.lower() in _COMMON_NAMES
    return absolute.parent.name if is_common else name


def _require_names(names: Iterable[str]) -> None:
    listed = list(names)
    for name in listed:
        if listed.count(name) > 1:
            raise UsageError(f"two results are called {name!r}: write NAME=PATH for one of them")


def _name_arms(
    parts: Sequence[ComparedResult], common: frozenset[str], by: By | None
) -> dict[str, list[ExchangedAttempt]]:
    """Return the attempts at the common instances by the label of their arm."""
    arms: dict[str, list[ExchangedAttempt]] = {}
    for part in parts:
        selected = [a for a in part.files.attempts if a.facts.instance_id in common]
        groups = filing.group_by_label(selected, None)
        for label, attempts in groups.items():
            several = label if len(parts) == 1 else f"{part.name} · {label}"
            usual = part.name if len(groups) == 1 else several
            for attempt in attempts:
                model, agent = attempt.facts.model, attempt.program or attempt.facts.agent
                arm = {"model": model, "harness": agent}[by] if by else usual
                arms.setdefault(arm, []).append(attempt)
    return arms


def _find_declared(parts: Sequence[ComparedResult], arms: Collection[str]) -> Comparisons | None:
    """Return the comparisons that experiments declare, of two of these arms.

    The primary comparison is the one of the first experiment that has such a comparison.
    """
    primary, margin, family = "", None, []
    for part in parts:
        plan = part.declared.plan if part.declared else AnalysisPlan()
        for pair in plan.comparisons:
            labels = [f"{part.name} · {arm}" if len(parts) > 1 else arm for arm in pair]
            if not set(labels) <= set(arms):
                continue
            if pair == plan.primary and not primary:
                primary, margin = ":".join(labels), plan.margin
            else:
                family.append(":".join(labels))
    return Comparisons(primary, margin, tuple(family)) if primary else None


def _build(
    arms: Mapping[str, Sequence[ExchangedAttempt]],
    common: frozenset[str],
    dataset: str,
    baseline: str | None,
    margin: float | None,
    comparisons: Comparisons | None,
) -> Report:
    """Build the report in a lake that is removed afterwards."""
    names = imported_arms.arm_names(arms)
    if baseline is not None and baseline not in (*names, *names.values()):
        raise UsageError(f"no arm {baseline!r} among {listing([*names])}: correct --baseline")
    chosen = (label for label in names if baseline in (label, names[label]))
    first = next(chosen, next(iter(names)))
    rest = [label for label in names if label != first]
    if margin is not None and len(rest) > 1:
        raise UsageError(f"--margin takes two arms, and these are {listing([*names])}")
    if margin is not None or (baseline and len(rest) > 1):
        primary, *family = (f"{names[first]}:{names[label]}" for label in rest)
        comparisons = Comparisons(primary, margin, tuple(family))
    labelled = [
        replace(attempt, facts=attempt.facts.model_copy(update={"arm": label}), lines={})
        for label, attempts in arms.items()
        for attempt in attempts
    ]
    title = imported_arms.arm_name("-vs-".join(names.values()))[:60].rstrip("-._")
    files = ReadFiles(labelled, dataset, tuple(sorted(common)))
    with TemporaryDirectory(prefix="durabench-compare-") as folder:
        filing.file(files, title, None, folder, comparisons, together=True)
        pair = (names[first], names[rest[0]]) if len(rest) == 1 else (None, None)
        return report_files.read(Lake.existing(folder), title, *pair)
