"""What the commands print."""

import asyncio
from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table

from eval.selection import Selection, select
from eval.types import Instance
from flows import reporting
from flows.errors import IncompleteRun, UsageError
from flows.lake import Lake

if TYPE_CHECKING:
    from flows.experiment import Experiment
    from flows.foreign import Imported
    from flows.preflight import Checked
    from flows.tracing import Shown
    from reports.types import ArmSummary, Comparison, Report

BRIEF_LINES = 12
"""Lines of an output that a trace shows unless it is asked for all."""

_out = Console(highlight=False)


def report(lake: Lake, built: "Report") -> None:
    """A report as a terminal takes it: the answer, the arms, the leading pair, the page."""
    from reports.headline import headline
    from reports.leading import describe

    for failed in built.audits:
        say(f"Audit {failed.name} found {failed.rows} rows: {failed.meaning}", "bold red")
    for note in built.notes:
        say(note.text, "yellow" if note.level == "warning" else "dim")
    _out.print(_arms(built.arms))
    if built.comparisons:
        _out.print(_pair(built.comparisons[0]))
    leading = describe(built)
    if leading:
        say(leading.summary)
    say(headline(built), "bold")
    say(f"Report: {reporting.page_path(lake, built.source.experiment)}")


def _arms(arms: "Iterable[ArmSummary]") -> Table:
    from reports.format import count, percent, usd
    from reports.markdown import cost_per_resolved

    table = Table("arm", "resolved", "rate", "95 % interval", "tokens", "cost", "per resolved")
    for arm in arms:
        bound = arm.cost.is_lower_bound
        table.add_row(
            arm.name,
            f"{arm.resolved} of {arm.planned}",
            percent(arm.rate),
            f"{percent(arm.interval.low)} to {percent(arm.interval.high)}",
            count(arm.tokens.input + arm.tokens.output),
            usd(arm.cost.usd, bound),
            cost_per_resolved(arm),
        )
    return table


def _pair(pair: "Comparison") -> Table:
    from reports.format import p_value

    baseline, candidate, cells = pair.baseline, pair.candidate, pair.table
    table = Table(
        "",
        f"{candidate} resolved",
        f"{candidate} not",
        title=f"{candidate} against {baseline}, exact McNemar p = {p_value(pair.p_value)}",
        title_justify="left",
    )
    table.add_row(f"{baseline} resolved", str(cells.both), str(cells.only_baseline))
    table.add_row(f"{baseline} not", str(cells.only_candidate), str(cells.neither))
    return table


def status(name: str | None, lake_path: str | None, *, cells: bool) -> None:
    """One experiment by arm, or the names of all.

    Raises:
        ReportError: there is no such experiment or no lake.
    """
    from reports.lake import list_experiments

    lake = Lake.existing(lake_path)
    if name is None:
        for experiment in list_experiments(lake.root):
            _out.print(experiment, markup=False)
        return
    built = reporting.read(lake, name)
    table = Table("arm", "planned", "started", "resolved", "infrastructure", "missing", "cost")
    for arm in built.arms:
        numbers = [arm.planned, arm.started, arm.resolved]
        losses = [arm.states["infrastructure"], arm.states["missing"]]
        table.add_row(arm.name, *map(str, [*numbers, *losses]), _usd(arm.cost.usd))
    _out.print(table)
    if cells:
        _cells(built.cells)


def _cells(cells: Iterable[Any]) -> None:
    table = Table("instance", "arm", "repeat", "state", "cost", "attempt", "detail")
    for cell in cells:
        table.add_row(
            cell.instance_id,
            cell.arm,
            str(cell.repeat),
            cell.state,
            _usd(cell.cost_usd),
            (cell.attempt_id or "")[:12],
            cell.reason or cell.detail or "",
        )
    _out.print(table)


def step(shown: "Shown", *, full: bool = False) -> None:
    """One step of a trace."""
    place = f"{shown.scope}/{shown.seq}" if shown.scope else str(shown.seq)
    if shown.message is None:
        what = "action" if shown.exit_code is None else f"command  exit code {shown.exit_code}"
        _out.rule(f"{place} {what}", align="left", style="dim")
        _out.print(_brief(f"$ {shown.command}", full), markup=False, style="cyan")
        _out.print(_brief(shown.output, full), markup=False)
        return
    role = f" {shown.role}" if shown.role else ""
    _out.rule(f"{place} model{role}  {_usd(shown.cost_usd)}", align="left", style="bold")
    _out.print(_brief(shown.message.get("content") or "", full), markup=False)
    for call in shown.message.get("tool_calls") or []:
        function = call["function"]
        _out.print(_brief(f"{function['name']} {function['arguments']}", full), markup=False)


def debugged(experiment: str, arm: str, lake: Lake) -> None:
    """Where the traces of a debugging run are."""
    for unit in lake.units("attempts", "*", experiment, arm):
        _out.print(f"durabench trace {unit}", markup=False)


def imported(runs: "list[Imported]", name: str) -> None:
    """What an import brought, and whose price is not known."""
    table = Table("instance", "calls", "without a cost", "cost")
    for run in runs:
        table.add_row(
            run.instance_id, str(run.model_calls), str(run.unpriced_calls), _usd(run.cost_usd)
        )
    _out.print(table)
    unpriced = {run.instance_id: run.unpriced_calls for run in runs if run.unpriced_calls}
    calls = sum(run.model_calls for run in runs)
    _out.print(
        f"{len(runs)} attempts, {calls} calls, {_usd(sum(run.cost_usd for run in runs))}; "
        f"{sum(unpriced.values())} calls came without a cost"
        + (f": {', '.join(f'{i} ({n})' for i, n in unpriced.items())}" if unpriced else ""),
        markup=False,
    )
    _out.print(f"durabench report {name}", markup=False)


def doubts(lake: Lake, experiment: str) -> None:
    """The resolved patches whose audit found something, each with its reasons."""
    graded = [
        row
        for unit in lake.units("evaluations", "*", experiment)
        for row in lake.find("evaluations", unit)
    ]
    in_doubt = [row for row in graded if row.get("audited_verdict") == "suspect"]
    for row in in_doubt:
        say(f"suspect  {row['instance_id']}  {'; '.join(row['audit_reasons'])}", "yellow")
    resolved = sum(row["resolved"] for row in graded)
    say(f"{len(in_doubt)} of {resolved} resolved patches are suspect")


def preflight(experiment: "Experiment", lake_path: str | None, concurrency: int) -> bool:
    """Check the images of an experiment's instances, one line for each; whether all pass.

    Raises:
        UsageError: there is no Docker.
        DatasetError: the dataset or the selection cannot be used.
        ImageError: an image of a task repo cannot be built.
        IncompleteRun: infrastructure kept some from being checked.
    """
    from flows import places, plan
    from flows.preflight import check_all, line

    lake = Lake.open(lake_path)

    async def check() -> "list[Checked]":
        chosen = plan.load(experiment)
        await places.decide("docker", chosen)
        plan.build_missing(chosen, experiment.dataset)
        located = places.find(chosen, experiment.dataset, "docker", network=experiment.network)
        done = []
        async for checked in check_all(chosen, located, lake, concurrency):
            done.append(checked)
            say(f"[{len(done)}/{len(chosen)}] {line(checked)}")
        return done

    done = asyncio.run(check())
    unknown = [checked for checked in done if not checked.is_known]
    failed = [checked for checked in done if checked.reasons and checked.is_known]
    say(f"{len(done) - len(failed) - len(unknown)} of {len(done)} images pass")
    if unknown:
        raise IncompleteRun(f"{len(unknown)} of {len(done)} images could not be checked")
    return not failed


def images(dataset: str, split: str, ids: list[str], regex: str, slice_: str) -> bool:
    """Which images are here; whether all are.

    Raises:
        DatasetError: the dataset or the selection cannot be used.
        ImageError: no daemon answers.
    """
    from eval.images import check

    statuses = check(_selected(dataset, split, ids, regex, slice_), dataset)
    missing = [status for status in statuses if not status.present]
    for status in missing:
        _out.print(f"missing  {status.instance_id}  {status.how}", markup=False, soft_wrap=True)
    _out.print(f"{len(statuses) - len(missing)} of {len(statuses)} images are here", markup=False)
    return not missing


def build(dataset: str, split: str, ids: list[str], regex: str, slice_: str) -> None:
    """Build the images of a task repo, one line for each.

    Raises:
        UsageError: the dataset is no task repo.
        DatasetError, ImageError: as they say.
    """
    from eval.images import build
    from eval.instances import task_repo

    repo = task_repo(dataset)
    if repo is None:
        raise UsageError(f"{dataset} is no task repo: its images are pulled, not built")
    actions: Counter[str] = Counter()
    for image in build(_selected(dataset, split, ids, regex, slice_), repo):
        actions[image.action] += 1
        _out.print(f"{image.action:<8} {image.instance_id}  {image.duration_s:.1f} s", markup=False)
    _out.print(f"{actions['built']} built, {actions['current']} were current", markup=False)


def _selected(dataset: str, split: str, ids: list[str], regex: str, slice_: str) -> list[Instance]:
    from eval.instances import load

    wanted = Selection(ids=ids, regex=regex, slice=slice_)
    return select(load(dataset, split), wanted)


def _brief(text: str, full: bool) -> str:
    lines = text.rstrip("\n").split("\n")
    if full or len(lines) <= BRIEF_LINES:
        return "\n".join(lines)
    half = BRIEF_LINES // 2
    return "\n".join([*lines[:half], f"  … {len(lines) - 2 * half} lines …", *lines[-half:]])


def say(text: str, style: str | None = None) -> None:
    """One line, however long."""
    _out.print(text, style=style, markup=False, soft_wrap=True)


def _usd(amount: float | None) -> str:
    return "cost unknown" if amount is None else f"${amount:,.4f}"
