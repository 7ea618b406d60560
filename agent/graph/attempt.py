"""The graph of an attempt: which recorded step uses what another one left."""

import json
import posixpath
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from agent.graph.state import ExecutionStateGraph
from agent.journal import RecordedStep


def graph_of(
    steps: Iterable[RecordedStep], label: Callable[[RecordedStep], str] = lambda step: step.kind
) -> ExecutionStateGraph:
    """Return the graph of an attempt's steps, by scope and number.

    A step reads the conversation of its scope (`talk:`), the conversation of the scope around it if
    it is the first step, and the conversations inside it that ended before it. Work in the
    workspace reads the work tree (`tree:`) and the files that it reported or named (`file:`); a
    call reads its `model:` and `prompt:`. In a folder, which ends in a slash, it reads every file.
    """
    flows = _Flows(ExecutionStateGraph())
    for step in sorted(steps, key=lambda step: step.ordinal):
        flows.add(step, label(step))
    return flows.graph


def role_of(step: RecordedStep) -> str | None:
    """Return the role of a model call, or None for any other step."""
    return str(_request(step).get("role", "")) if step.kind == "model" else None


@dataclass
class _Flows:
    """The graph so far, and the last writer of everything in it."""

    graph: ExecutionStateGraph
    writers: dict[str, str] = field(default_factory=dict)
    ended: dict[str, list[str]] = field(default_factory=dict)
    """By scope, the scopes inside it whose last step no step of the scope has read."""

    def add(self, step: RecordedStep, label: str) -> None:
        place = step.place
        reads, writes = self._reads(step), [f"talk:{step.scope}"]
        if step.tree is not None:
            writes.append(f"tree:{step.tree.tree}")
        writes += [f"file:{path}" for path in _get_reported_paths(step, "changed")]
        is_cut_off = step.result is not None and step.result.startswith(b'{"cut_off"')
        self.graph.add_step(
            place,
            reads=reads,
            writes=writes,
            state="pending" if step.result is None else "failed" if is_cut_off else "executed",
            label=label,
            cost_usd=step.cost_usd if step.kind == "model" else 0.0,
            duration_s=step.duration_s or 0.0,
        )
        sources: dict[str, set[str]] = {}
        for name in (name for read in reads for name in self._find_writes(read)):
            sources.setdefault(self.writers[name], set()).add(name)
        for source, names in sources.items():
            self.graph.add_edge(source, place, names)
        self.writers |= dict.fromkeys(writes, place)
        scope = step.scope
        while scope:
            outer = scope.rpartition("/")[0]
            inside = self.ended.setdefault(outer, [])
            if scope not in inside:
                inside.append(scope)
            scope = outer

    def _reads(self, step: RecordedStep) -> list[str]:
        talk = f"talk:{step.scope}"
        reads = [talk, *(f"talk:{scope}" for scope in self.ended.pop(step.scope, ()))]
        if talk not in self.writers and step.scope:
            outer = step.scope.rpartition("/")[0]
            while outer and f"talk:{outer}" not in self.writers:
                outer = outer.rpartition("/")[0]
            reads.append(f"talk:{outer}")
        role = role_of(step)
        if role is not None:
            return [*reads, f"model:{role}", f"prompt:{role}"]
        began_at = step.inputs.began_at
        if began_at is not None:
            reads.append(f"tree:{began_at.tree}")
        paths = _get_reported_paths(step, "read") or _get_argument_paths(step)
        return reads + [f"file:{path}" for path in paths]

    def _find_writes(self, read: str) -> list[str]:
        """Return the written names that a read includes."""
        if not (read.startswith("file:") and read.endswith("/")):
            return [read] if read in self.writers else []
        inside = "file:" if read == "file:./" else read
        return [name for name in self.writers if name.startswith(inside)]


def _request(step: RecordedStep) -> dict[str, Any]:
    request: dict[str, Any] = json.loads(step.request.decode("utf-8", "surrogatepass"))
    return request


def _get_argument_paths(step: RecordedStep) -> Sequence[str]:
    """Return the paths in the arguments of a tool."""
    request = _request(step)
    arguments = request.get("arguments", request)
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments)
        except ValueError:
            return []
    if not isinstance(arguments, dict):
        return []
    paths = arguments.get("paths")
    values = [arguments.get("path"), *(paths if isinstance(paths, list) else ())]
    return [posixpath.normpath(path) for path in values if isinstance(path, str) and path]


def _get_reported_paths(step: RecordedStep, what: str) -> Sequence[str]:
    """Return the paths that a tool reported to have `read` or `changed`."""
    if step.kind != "action" or step.result is None:
        return []
    content = json.loads(step.result.decode("utf-8", "surrogatepass")).get("content")
    paths = content.get(what) if isinstance(content, dict) else None
    return [path for path in paths if isinstance(path, str)] if isinstance(paths, list) else []
