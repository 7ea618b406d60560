"""A step of an attempt in the terminal: a summary line, and the full input and output below it."""

import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from rich.text import Text
from rich.tree import Tree

from agent.models.protocol import ModelReply
from agent.session.steps import ActionResult, CutOff, Step
from agent.workspaces import CommandResult
from flows.display.terminal import fit
from reports.steps import (
    CallPrice,
    Origin,
    StepView,
    find_cut_off,
    of_action,
    of_call,
    of_exit,
    of_work,
)

_LEAST_SUMMARY, _LEAST_PLACE = 20, 8
"""Minimum columns for a step's summary and for its location, on any terminal width."""


def of_step(step: Step, flaws: Collection[str] | None = None) -> StepView:
    """Return a step of a session for display. `flaws` has the known flaws of its reply."""
    origin = Origin(
        step.scope, step.seq, step.started_at, step.kind, step.duration_s, step.replayed
    )
    match step.result:
        case ModelReply(message=message, usage=usage, finish_reason=reason):
            spent = CallPrice(
                usage.input_tokens, usage.output_tokens, usage.cache_read_tokens, usage.cost_usd
            )
            role = step.request.get("role", "")
            known = find_cut_off(reason) if flaws is None else flaws
            return of_call(origin, role, step.request, message, spent, known)
        case CommandResult(output=output, exit_code=code, timed_out=timed_out):
            return of_work(origin, step.request, output, of_exit(code, timed_out=timed_out))
        case ActionResult(content=content):
            return of_work(origin, step.request, content, of_action(content))
        case CutOff(cut_off=what):
            return of_work(origin, step.request, None, f"cut off: {what}")


def line(shown: StepView, width: int) -> str:
    """Return a step in one line of at most `width` columns: the time, and then its `entry`."""
    clock = f"{shown.origin.at.astimezone():%H:%M:%S}" if shown.origin.at else "--:--:--"
    return fit(f"{clock}  {entry(shown, width - len(clock) - 2)}", width)


def entry(shown: StepView, width: int) -> str:
    """Return a step in one line of at most `width` columns, without its time.

    The line has location, name, summary, outcome, tokens, cost and duration. If it does not fit,
    the summary is cut first, then the beginning of the location, and the outcome and numbers last.
    """
    right = "  ".join(_numbers(shown, width))
    room = width - len(f"{shown.name:<7}    {right}")
    place, longest = shown.origin.place, max(room - _LEAST_SUMMARY, _LEAST_PLACE)
    if len(place) > longest:
        place = f"…{place[1 - longest :]}"
    did = fit(shown.did, max(room - max(len(place), 4), 0))
    return fit(f"{place:<4} {shown.name:<7} {did}  {right}".rstrip(), width)


def block(shown: StepView) -> str:
    """Return the full input and output of a step, to be printed below its line."""
    said = [(f"[{message.role}]\n{message.text}", "  ") for message in shown.messages]
    parts = [*said, (shown.asked, "$ "), (shown.result, "  ")]
    return "\n".join(_indent(text, first) for text, first in parts if text)


def _numbers(shown: StepView, width: int) -> list[str]:
    parts = [fit(shown.outcome, max(width // 3, 1))] if shown.outcome else []
    if spent := shown.spent:
        counts = (spent.input_tokens, spent.output_tokens)
        parts += ["+".join(map(_short, counts)) + " tok", spent.cost]
    return [*parts, shown.took] if shown.took else parts


def _short(count: int | None) -> str:
    if count is None:
        return "?"
    return str(count) if count < 1000 else f"{count / 1000:.1f}k"


def _indent(text: str, first: str) -> str:
    lines = text.rstrip("\n").split("\n")
    return "\n".join((first if index == 0 else "  ") + line for index, line in enumerate(lines))


_INDENT = 4
_CANDIDATE = re.compile(r"((?:.*/)?step-\d+)/candidate-(\d+)(?:/.*)?")
_JUDGE = re.compile(r"((?:.*/)?approach(?:-\d+)?/judge-\d+)(?:/.*)?")


def mark_chosen(report: Mapping[str, Any], steps: Iterable[StepView]) -> dict[str, str]:
    """Return words for the scopes of the candidates and changes that the durable agent has chosen.

    `report` is its own. It lists them in the order in which they were made.
    """
    places = list(dict.fromkeys(step.origin.scope for step in steps))
    marks: dict[str, str] = {}
    made = dict.fromkeys(match[1] for place in places if (match := _CANDIDATE.fullmatch(place)))
    for scope, result in zip(made, report.get("steps") or (), strict=False):
        chosen = [each for each in result["candidates"] if each["number"] == result["chosen"]]
        marks |= {
            f"{scope}/candidate-{each['number']}": f"chosen, {each['status']}" for each in chosen
        }
    judged = dict.fromkeys(match[1] for place in places if (match := _JUDGE.fullmatch(place)))
    for scope, change in zip(judged, report.get("changes") or (), strict=False):
        if change["chosen"]:
            gates = ", ".join(change["closed_gates"])
            marks[scope] = f"chosen, closed gates: {gates}" if gates else "chosen, accepted"
    return marks


def tree(title: str, steps: Iterable[StepView], width: int, marks: Mapping[str, str]) -> Tree:
    """Return steps under their scopes, which are ordered by their first steps.

    `marks` are words for some of the scopes.
    """
    root = Tree(title)
    scopes: dict[str, Tree] = {"": root}
    for step in steps:
        place = step.origin.scope
        depth = 1 + (place.count("/") + 1 if place else 0)
        text = entry(step, max(20, width - _INDENT * depth))
        _scope(scopes, place, marks).add(Text(text.removeprefix(f"{place}/") if place else text))
    return root


def _scope(scopes: dict[str, Tree], path: str, marks: Mapping[str, str]) -> Tree:
    """Return the node of a scope, added below its outer scope."""
    if path not in scopes:
        around, _, name = path.rpartition("/")
        mark = f"  {marks[path]}" if path in marks else ""
        scopes[path] = _scope(scopes, around, marks).add(Text(f"{name}{mark}", "bold"))
    return scopes[path]
