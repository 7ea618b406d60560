"""The output of `trace`, `graph` and `diagnose`: an attempt's steps, its graph and its diagnosis.

Imported attempts and attempts with pruned steps are read from the lake.
"""

import json
import time
from collections.abc import Iterator, Sequence
from typing import Any, Literal

from agent.graph.attempt import graph_of, role_of
from agent.graph.drawing import as_mermaid, as_tree
from agent.graph.state import ExecutionStateGraph
from agent.journal import Journal, RecordedStep, Tenure
from agent.session.steps import from_record
from flows.cli import console
from flows.display.errors import UsageError
from flows.display.steps import mark_chosen, of_step, tree
from flows.display.terminal import out, show
from flows.experiments.declaration import Experiment
from flows.experiments.diagnosis import Subject, diagnose, label
from flows.experiments.forking import find_attempt, load_declaration
from flows.storage.job_names import resolve_attempt
from flows.storage.journals import existing_journal
from flows.storage.lake import Lake
from flows.storage.outputs import describe_output
from flows.storage.report_files import read_attempt_steps
from reports.format import UNKNOWN, plural, usd_of_calls
from reports.steps import StepView
from reports.values import in_full

POLL_S = 0.5
"""Interval at which `durabench trace --follow` reads the journal."""


def trace(
    prefix: str,
    lake_path: str | None,
    *,
    full: bool,
    follow: bool,
    as_tree: bool = False,
    only_report: bool = False,
) -> None:
    """Show the steps of the attempt with this prefix of its id, and their cost so far.

    With `only_report`, show the report of its arm instead.

    Raises:
        UsageError: no attempt, or more than one, has this prefix.
    """
    lake = Lake.existing(lake_path)
    journal, prefix = existing_journal(lake), resolve_attempt(lake, prefix)
    recorded = {attempt.attempt_id for attempt in journal.find(prefix)} if journal else set()
    ids = sorted(recorded | set(lake.units("attempts", f"{prefix}*")))
    if len(ids) != 1:
        problem = f"{len(ids)} attempts start with {prefix!r}" if ids else f"no attempt {prefix!r}"
        raise UsageError(f"{problem} in {lake.root}; `durabench status NAME --cells` lists them")
    [attempt_id] = ids
    if only_report:
        report = _find_report(lake, journal, attempt_id)
        show(in_full(report) if report else f"{attempt_id}: its arm has left no report")
        return
    pruned_at = journal.pruned_at(attempt_id) if journal else None
    if pruned_at is not None:
        show(
            f"the steps were pruned from the journal on {pruned_at:%Y-%m-%d}; showing the rows "
            "of the lake, with long outputs shortened"
        )
    if attempt_id not in recorded or pruned_at is not None:
        steps = read_attempt_steps(lake, attempt_id)
    else:
        steps = _follow_journal(lake, journal, attempt_id, follow)
    costs, seen = [], []
    for step in steps:
        if as_tree:
            seen.append(step)
        else:
            console.step(step, full=full)
        if step.spent:
            costs.append(step.spent.cost_usd)
    if as_tree:
        marks = mark_chosen(_find_report(lake, journal, attempt_id), seen)
        out().print(tree(attempt_id, seen, out().width, marks))
    _print_end(lake, journal, attempt_id, costs)


def _find_report(lake: Lake, journal: Journal | None, attempt_id: str) -> dict[str, Any]:
    """Return the report of the arm, by the attempt's row or by the journal, or {}."""
    rows = lake.find("attempts", attempt_id)
    if rows:
        return dict(json.loads(rows[0]["report"] or "{}"))
    outcome = journal.outcome(attempt_id) if journal else None
    return dict((json.loads(outcome).get("report") if outcome else None) or {})


def _print_end(
    lake: Lake, journal: Journal | None, attempt_id: str, costs: Sequence[float | None]
) -> None:
    """Print how the attempt ended, by its row or by the journal, with its cost and its worker."""
    rows, end, billed, worker = lake.find("attempts", attempt_id), "running or interrupted", "", ""
    if rows:
        end = f"{rows[0]['outcome']} ({rows[0]['detail']})"
    elif journal and (outcome := journal.outcome(attempt_id)) is not None:
        content = json.loads(outcome)
        end = f"{content['status']} ({content['detail']})"
    is_unmetered = not costs and rows and rows[0]["cost_usd"] is None
    cost = "cost unknown" if is_unmetered else usd_of_calls(costs)
    if journal:
        account, tenures = journal.account(attempt_id), _list_tenures(journal, attempt_id)
        if account.calls_billed:
            amount = UNKNOWN if account.billed_usd is None else f"${account.billed_usd:,.4f}"
            billed = f", billed {amount}"
        worker = f"; {_format_tenure(tenures[0])}" if len(tenures) == 1 else ""
    show(f"{attempt_id}: {end}; {cost}{billed}{worker}")
    if rows and rows[0]["outcome"] != "submitted":
        [(experiment, *_)] = lake.places("attempts", attempt_id)
        for line in describe_output(lake, experiment, attempt_id):
            show(line)


def _follow_journal(
    lake: Lake, journal: Journal | None, attempt_id: str, follow: bool
) -> Iterator[StepView]:
    """Yield the steps. Of several workers, show each before its first step.

    The lake knows the flaws of replies, once a run of the attempt has ended.
    """
    assert journal is not None
    calls = lake.find("llm_calls", attempt_id)
    flaws = {(call["scope"], call["seq"]): call.get("flaws") for call in calls}
    seen: set[tuple[str, int]] = set()
    announced = 0
    while True:
        ended = journal.outcome(attempt_id) is not None
        tenures = _list_tenures(journal, attempt_id)
        for recorded in sorted(journal.steps(attempt_id), key=lambda step: step.ordinal):
            place = (recorded.scope, recorded.seq)
            if recorded.result is not None and place not in seen:
                seen.add(place)
                while 1 < len(tenures) > announced:
                    if (tenures[announced].first_ordinal or 0) > recorded.ordinal:
                        break
                    show(_format_tenure(tenures[announced]), "dim")
                    announced += 1
                yield of_step(from_record(recorded), flaws.get(place))
        if ended or not follow:
            return
        time.sleep(POLL_S)


def _list_tenures(journal: Journal, attempt_id: str) -> list[Tenure]:
    """Return the tenures of the workers that made a step."""
    return [tenure for tenure in journal.tenures(attempt_id) if tenure.steps]


def _format_tenure(tenure: Tenure) -> str:
    """Return which worker held the attempt, and from when to when."""
    until = f"to {tenure.ended_at.astimezone():%H:%M:%S}" if tenure.ended_at else "not given back"
    began = f"from {tenure.began_at.astimezone():%H:%M:%S}"
    return f"held by {tenure.worker} {began} {until}: {plural(tenure.steps, 'step')}"


def show_diagnosis(prefix: str, lake_path: str | None) -> None:
    """Print the diagnosis of the attempt with this prefix of its id.

    Raises:
        UsageError: the attempt does not exist, or its steps were pruned.
    """
    lake, journal, attempt = find_attempt(prefix, lake_path)
    findings = diagnose(Subject(lake, journal, attempt), lake_path)
    show(f"{attempt.arm} on {attempt.instance_id}, attempt {attempt.attempt_id}")
    if not findings:
        show("It is resolved: there is nothing to explain.")
    for finding in findings:
        show(f"\n{finding.title}", "bold")
        for line in finding.lines:
            show(f"  {line}")
        if finding.command:
            show(f"  {finding.command}")


def show_graph(
    prefix: str,
    form: Literal["tree", "mermaid", "json"],
    changes: Sequence[str],
    lake_path: str | None,
) -> None:
    """Print the graph of the attempt with this prefix of its id, marking stale steps.

    Raises:
        UsageError: the attempt does not exist, its steps were pruned, or a change names nothing.
    """
    lake, journal, attempt = find_attempt(prefix, lake_path)
    steps = journal.steps(attempt.attempt_id)
    graph = graph_of(steps, label)
    stale: list[str] = []
    for change in changes:
        experiment = load_declaration(lake, attempt) if change.startswith("option=") else None
        stale += graph.mark_stale(_find_concerned(change, steps, attempt.arm, experiment))
    drawn = {"tree": as_tree, "mermaid": as_mermaid, "json": ExecutionStateGraph.to_json}
    show(drawn[form](graph))
    if changes and form == "tree":
        show(_bill_of_stale(graph, stale))


def _find_concerned(
    change: str, steps: Sequence[RecordedStep], arm: str, experiment: Experiment | None
) -> list[str]:
    """Return the steps that a change concerns by itself."""
    kind, equals, name = change.partition("=")
    match kind if equals else "":
        case "role" | "prompt":
            roles = {role for step in steps if (role := role_of(step)) is not None}
            if name not in roles:
                names = ", ".join(sorted(role or "''" for role in roles)) or "no model"
                raise UsageError(f"no call of the attempt has role {name!r}; its roles: {names}")
            return [step.place for step in steps if role_of(step) == name]
        case "step":
            if name not in {step.place for step in steps}:
                raise UsageError(f"the attempt has no step {name!r}; `durabench trace` lists them")
            return [name]
        case "option":
            assert experiment is not None, "options need the declaration"
            options = type(experiment.arm(arm).options).model_fields
            if name.partition(".")[0] not in options:
                raise UsageError(f"arm {arm} has no option {name!r}; it has {', '.join(options)}")
            return [step.place for step in steps]
        case _:
            raise UsageError(f"--stale-if {change!r} is none of role=…, prompt=…, option=…, step=…")


def _bill_of_stale(graph: ExecutionStateGraph, stale: Sequence[str]) -> str:
    def costs(nodes: Sequence[str]) -> list[float | None]:
        return [
            node.cost_usd
            for node in map(graph.get_node, nodes)
            if any(read.startswith("model:") for read in node.reads)
        ]

    some, every = costs(stale), costs([node.id for node in graph.nodes])
    return (
        f"{plural(len(stale), 'step')} of {len(graph)} stale; {len(some)} of "
        f"{plural(len(every), 'call')}, {usd_of_calls(some)} of {usd_of_calls(every)}"
    )
