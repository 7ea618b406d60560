"""The graph of an attempt, read from the journal."""

from collections.abc import Sequence
from typing import Literal

from agent.graph.attempt import graph_of, role_of
from agent.graph.drawing import as_mermaid, as_tree
from agent.graph.state import ExecutionStateGraph
from agent.journal import RecordedStep
from flows.display.errors import UsageError
from flows.display.terminal import show as say
from flows.experiments.declaration import Experiment
from flows.experiments.diagnosis import label
from flows.experiments.forking import declared, recorded_attempt
from reports.format import plural, usd_of_calls


def show(
    prefix: str,
    form: Literal["tree", "mermaid", "json"],
    changes: Sequence[str],
    lake_path: str | None,
) -> None:
    """Print the graph of the attempt whose id begins with `prefix`, with what changes make stale.

    Raises:
        UsageError: there is no such attempt, its steps were pruned, or a change names nothing.
    """
    lake, journal, attempt = recorded_attempt(prefix, lake_path)
    steps = journal.steps(attempt.attempt_id)
    graph = graph_of(steps, label)
    stale: list[str] = []
    for change in changes:
        experiment = declared(lake, attempt) if change.startswith("option=") else None
        stale += graph.mark_stale(_concerned(change, steps, attempt.arm, experiment))
    drawn = {"tree": as_tree, "mermaid": as_mermaid, "json": ExecutionStateGraph.to_json}
    say(drawn[form](graph))
    if changes and form == "tree":
        say(_bill(graph, stale))


def _concerned(
    change: str, steps: Sequence[RecordedStep], arm: str, experiment: Experiment | None
) -> list[str]:
    """Return the steps that a change concerns by itself."""
    kind, equals, name = change.partition("=")
    match kind if equals else "":
        case "role" | "prompt":
            roles = {role for step in steps if (role := role_of(step)) is not None}
            if name not in roles:
                known = ", ".join(sorted(role or "''" for role in roles)) or "no model"
                raise UsageError(f"no call of the attempt has role {name!r}; its roles: {known}")
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


def _bill(graph: ExecutionStateGraph, stale: Sequence[str]) -> str:
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
