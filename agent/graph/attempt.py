"""The graph of an attempt: which recorded step uses what another one left."""

import json
import posixpath
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from agent.graph.quoting import Quotations
from agent.graph.scopes import Scopes
from agent.graph.state import ExecutionStateGraph
from agent.graph.trees import WorkTrees
from agent.journal import RecordedStep, TreeRef


def graph_of(
    steps: Iterable[RecordedStep], label: Callable[[RecordedStep], str] = lambda step: step.kind
) -> ExecutionStateGraph:
    """Return the graph of an attempt's steps, by scope and number.

    A step reads what was said in its scope (`talk:`). The scopes inside a conversation start from
    it, and its next step reads the last step of each. Of any other scope, a step reads what its
    request quotes: a prompt holds what an arm passed on. Work in the workspace reads the work tree
    (`tree:`) and the files that it reported or named (`file:`), as its branch has them; a call
    reads its `model:` and `prompt:`. In a folder, which ends in a slash, it reads every file.
    """
    ordered = sorted(steps, key=lambda step: step.ordinal)
    flows = _Flows(ExecutionStateGraph(), Scopes(ordered))
    for step in ordered:
        flows.add(step, label(step))
    return flows.graph


def role_of(step: RecordedStep) -> str | None:
    """Return the role of a model call, or None for any other step."""
    return str(_request(step).get("role", "")) if step.kind == "model" else None


Sources = dict[str, set[str]]
"""By step that is used, the names of the things that it left."""


@dataclass
class _Flows:
    """The graph so far, and the last writer of everything in it."""

    graph: ExecutionStateGraph
    scopes: Scopes
    scope_of: dict[str, str] = field(default_factory=dict)
    last: dict[str, str] = field(default_factory=dict)
    """By scope, its last step."""
    unread: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    """By conversation, the scopes inside it whose last step no step of it has read."""
    trees: WorkTrees = field(default_factory=WorkTrees)
    quotations: Quotations = field(default_factory=Quotations)

    def add(self, step: RecordedStep, label: str) -> None:
        place, request, role = step.place, _request(step), role_of(step)
        sources: Sources = defaultdict(set)
        self._find_talk(step, request, sources)
        reads = [f"model:{role}", f"prompt:{role}"] if role is not None else []
        writes = [f"talk:{step.scope}"]
        if role is None:
            reads += self._find_work(step, request, sources)
            writes += self._write(step)
        is_cut_off = step.result is not None and step.result.startswith(b'{"cut_off"')
        self.graph.add_step(
            place,
            reads={f"talk:{step.scope}", *reads, *(set().union(*sources.values()))},
            writes=writes,
            state="pending" if step.result is None else "failed" if is_cut_off else "executed",
            label=label,
            cost_usd=step.cost_usd if step.kind == "model" else 0.0,
            duration_s=step.duration_s or 0.0,
        )
        for source, names in sources.items():
            self.graph.add_edge(source, place, names)
        self.scope_of[place] = step.scope
        self.quotations.add(place, _result(step), echoes=None if role is not None else request)

    def _find_talk(self, step: RecordedStep, request: dict[str, Any], sources: Sources) -> None:
        scope, around = step.scope, self.scopes.find_conversation(step.scope)
        scopes = [scope, *self.unread.pop(scope, ())]
        if scope not in self.last and around is not None:
            scopes.append(around)
        found = {self.last[other] for other in scopes if other in self.last}
        found |= self.quotations.find_sources(
            request, lambda source: self.scopes.can_pass(self.scope_of[source], step)
        )
        for source in found:
            if self.scope_of[source] != scope or source == self.last.get(scope):
                sources[source].add(f"talk:{self.scope_of[source]}")
        self.last[scope] = step.place
        if around is not None and scope not in self.unread[around]:
            self.unread[around].append(scope)

    def _find_work(
        self, step: RecordedStep, request: dict[str, Any], sources: Sources
    ) -> list[str]:
        """Add the writers of all that a step in a workspace reads. Return the names of that."""
        branch, began_at = step.bench or "", step.inputs.began_at
        trees = [] if began_at is None else [began_at.tree]
        if request.get("action") == "take":
            trees.append(TreeRef.parse(request["tree"]).tree)
        for tree in trees:
            if writer := self.trees.find_writer(branch, tree):
                sources[writer].add(f"tree:{tree}")
        paths = _get_reported_paths(step, "read") or _get_argument_paths(request)
        for path in self.trees.find_files(branch, trees[0] if trees else "", paths):
            sources[self.trees.get_writer(branch, path)].add(f"file:{path}")
        if len(trees) > 1:
            self.trees.take(branch, trees[1])
        return [*(f"tree:{tree}" for tree in trees), *(f"file:{path}" for path in paths)]

    def _write(self, step: RecordedStep) -> list[str]:
        """Record what a step in a workspace wrote. Return the names."""
        paths = _get_reported_paths(step, "changed")
        tree = None if step.tree is None else step.tree.tree
        self.trees.write(step.bench or "", step.place, tree, paths)
        names = [f"file:{path}" for path in paths]
        return names if tree is None else [f"tree:{tree}", *names]


def _request(step: RecordedStep) -> dict[str, Any]:
    request: dict[str, Any] = json.loads(step.request.decode("utf-8", "surrogatepass"))
    return request


def _result(step: RecordedStep) -> Any:
    """Return what a later request can quote of a result."""
    if step.result is None:
        return None
    result = json.loads(step.result.decode("utf-8", "surrogatepass"))
    if step.kind != "model":
        content = result.get("output", result.get("content"))
        # The command that ran is not news.
        is_object = isinstance(content, dict)
        return {**content, "command": None} if is_object else content
    message = result.get("message") or {}
    calls = message.get("tool_calls") or ()
    return [message.get("content"), *(call["function"]["arguments"] for call in calls)]


def _get_argument_paths(request: dict[str, Any]) -> Sequence[str]:
    """Return the paths in the arguments of a tool."""
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
