"""Steps of Python in this process, which run again when a step before them was edited."""

import contextlib
import copy
import io
import traceback
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any

from agent.cells.diagnosis import MODULES, Repair, find_repair, list_diff
from agent.graph.names import get_reads, get_writes, infer_edges
from agent.graph.state import ExecutionStateGraph, State


@dataclass(frozen=True)
class StepRun:
    """One run of a step."""

    step: str
    success: bool
    output: str
    """The text that it printed."""
    error: BaseException | None = None
    traceback: str = ""
    values: dict[str, Any] = field(default_factory=dict)
    """The variables that it wrote."""


@dataclass(frozen=True)
class Diagnosis:
    """The reason why a step failed."""

    step: str
    error: str
    used: dict[str, str]
    """By variable that the step read, the step that wrote it."""
    repair: str
    """A possible repair in words, or ''."""


class Executor:
    """Runs trusted steps in this process: a step sees the values that earlier steps left.

    The capability `cells` does the same in a workspace, in separate processes.
    """

    def __init__(self) -> None:
        self.sources: dict[str, str] = {}
        self.results: dict[str, StepRun] = {}
        self._names: dict[str, Any] = {}
        """The variables of the step that runs, and the globals of all functions."""
        self._ran: list[str] = []
        """The steps by their last run."""

    @property
    def graph(self) -> ExecutionStateGraph:
        """The flows between the steps. A step that did not run since an edit is stale."""
        graph = ExecutionStateGraph()
        for step, source in self.sources.items():
            result = self.results.get(step)
            state: State = "pending"
            if result is not None:
                state = "executed" if result.success else "failed"
            graph.add_step(step, reads=get_reads(source), writes=get_writes(source), state=state)
        for edge in infer_edges(self.sources.items()):
            graph.add_edge(*edge)
        graph.mark_stale(
            step
            for source, step, _ in graph.edges
            if self._ran.index(source) > self._ran.index(step)
        )
        return graph

    def execute(self, step: str, source: str) -> StepRun:
        """Run a step, a new one behind all others, or an edited one in its place.

        Raises:
            SyntaxError: it is not Python.
        """
        code = compile(source, f"<{step}>", "exec")
        names = get_writes(source)
        values = self.find_values(step)
        self._names.clear()
        self._names.update(values)
        printed = io.StringIO()
        error: BaseException | None = None
        text = ""
        try:
            with contextlib.redirect_stdout(printed):
                exec(code, self._names)  # noqa: S102 - the caller trusts it
        except Exception as problem:
            error, text = problem, traceback.format_exc()
        written = {name: self._names[name] for name in names if name in self._names}
        result = StepRun(step, error is None, printed.getvalue(), error, text, written)
        self.sources[step], self.results[step] = source, result
        self._ran = [*(other for other in self._ran if other != step), step]
        return result

    def replay_from(self, step: str) -> list[StepRun]:
        """Run a step and all that depend on it again, in order, until one fails.

        Raises:
            ValueError: the step does not exist.
        """
        done: list[StepRun] = []
        for stale in self.graph.replay_from(step):
            done.append(self.execute(stale, self.sources[stale]))
            if not done[-1].success:
                break
        return done

    def find_values(self, step: str) -> dict[str, Any]:
        """Return copies of the values before a step, so that it may change them."""
        values: dict[str, Any] = {}
        for earlier in self.sources:
            if earlier == step:
                break
            result = self.results.get(earlier)
            values |= result.values if result is not None else {}
        for name, value in values.items():
            with contextlib.suppress(Exception):  # such as a module, which is shared
                values[name] = copy.deepcopy(value)
        return values


def diagnose(executor: Executor, step: str) -> Diagnosis | None:
    """Return why the last run of a step failed, or None if it did not.

    Raises:
        KeyError: it never ran.
    """
    result = executor.results[step]
    if result.error is None:
        return None
    flows = executor.graph.get_flows(step)
    used = {name: writer for writer, names in flows.items() for name in sorted(names)}
    error = f"{type(result.error).__name__}: {result.error}"
    repair, words = _find_repair(executor, step), ""
    if repair is not None:
        words = f"Was `{repair.instead}` meant?" if repair.instead else "An import is missing."
    return Diagnosis(step, error, used, words)


def generate_patch(executor: Executor, step: str) -> str:
    """Return a unified diff that would repair a failed step, or '' if none is known.

    Raises:
        KeyError: it never ran.
    """
    source, repair = executor.sources[step], _find_repair(executor, step)
    return "\n".join(list_diff(source, repair.code, step)) if repair else ""


def _find_repair(executor: Executor, step: str) -> Repair | None:
    error = executor.results[step].error
    if not isinstance(error, NameError) or not error.name:
        return None
    module = MODULES.get(error.name, error.name)
    known = executor.find_values(step)
    return find_repair(
        error.name, executor.sources[step], known, importable=find_spec(module) is not None
    )
