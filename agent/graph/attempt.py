"""The graph of an attempt: which recorded step uses what another one left."""

import json
import posixpath
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from agent.graph.state import ExecutionStateGraph
from agent.journal import RecordedStep, TreeRef


class Scopes:
    """The scopes of an attempt: which are conversations or branches, and when each ended."""

    def __init__(self, steps: Sequence[RecordedStep]) -> None:
        """Take all steps of the attempt, in order."""
        self._conversations = {step.scope for step in steps if step.kind == "model"}
        self._branches = {step.bench for step in steps if step.bench}
        self._last = {scope: step.ordinal for step in steps for scope in list_around(step.scope)}
        """By scope, the ordinal of the last step in it or inside it."""

    def find_conversation(self, scope: str) -> str | None:
        """Return the innermost conversation around a scope, or None."""
        around = list_around(scope)[1:]
        return next((outer for outer in around if outer in self._conversations), None)

    def can_pass(self, source: str, step: RecordedStep) -> bool:
        """Return True if something left in the scope `source` can be in the request of a step.

        It was left in a scope around or inside the scope of the step, or in a neighbour that had
        ended, but not in another branch from the same tree.
        """
        inner = list_around(source)
        shared = next(scope for scope in list_around(step.scope) if scope in inner)
        if shared in (source, step.scope):
            return True
        left, right = (
            next(scope for scope in reversed(list_around(one)) if len(scope) > len(shared))
            for one in (source, step.scope)
        )
        return self._last[left] < step.ordinal and not {left, right} <= self._branches


def list_around(scope: str) -> list[str]:
    """Return a scope and all scopes around it, the innermost first."""
    parts = scope.split("/") if scope else []
    return ["/".join(parts[:length]) for length in range(len(parts), -1, -1)]


@dataclass
class WorkTrees:
    """The last writers of the work trees and files of each branch."""

    _writers: dict[str, dict[str, str]] = field(default_factory=dict)
    """By tree, its last writer in each branch."""
    _files: dict[str, dict[str, str]] = field(default_factory=dict)
    """By branch, the last writer of each of its files."""
    _files_after: dict[str, dict[str, str]] = field(default_factory=dict)
    """By step that wrote a tree, the last writer of each file in it."""

    def find_writer(self, branch: str, tree: str) -> str | None:
        """Return the last writer of a tree: in the branch, around it, or else in any branch."""
        writers = self._writers.get(tree, {})
        around = (writers[outer] for outer in list_around(branch) if outer in writers)
        return next(around, next(reversed(writers.values()), None))

    def take(self, branch: str, tree: str) -> None:
        """Let a branch have the files of a tree, of whatever branch it is."""
        writer = self.find_writer(branch, tree)
        self._files[branch] = dict(self._files_after.get(writer or "", {}))

    def find_files(self, branch: str, began_at: str, paths: Sequence[str]) -> Iterator[str]:
        """Yield the files of a branch that these paths include. Its first tree is `began_at`."""
        if branch not in self._files:
            self.take(branch, began_at)
        for path in paths:
            inside = "" if path == "./" else path
            for name in self._files[branch]:
                if name == path or (path.endswith("/") and name.startswith(inside)):
                    yield name

    def get_writer(self, branch: str, path: str) -> str:
        """Return the last writer of a file that `find_files` yielded."""
        return self._files[branch][path]

    def write(self, branch: str, step: str, tree: str | None, paths: Sequence[str]) -> None:
        """Record the files that a step wrote in a branch, and its tree, if that changed."""
        files = self._files.setdefault(branch, {})
        files.update(dict.fromkeys(paths, step))
        if tree is not None:
            self._writers.setdefault(tree, {})[branch] = step
            self._files_after[step] = dict(files)


WORDS = 4
"""Words in a row that count as quoted. Of a shorter text, all words do."""

_SHORTEST_CHARS = 8
"""A shorter text, such as a verdict or a number, can come from anywhere."""

_WORD = re.compile(r"\w+")
_ESCAPE = re.compile(r'\\[nrt"\\/]')

Run = tuple[str, ...]
"""Words in a row."""


class Quotations:
    """The words of an attempt's results, each with the steps that left them."""

    def __init__(self) -> None:
        self._sources: dict[Run, list[str]] = {}
        self._given: set[Run] = set()
        """Words that a request had before any result, such as the words of the task."""
        self._lengths = {WORDS}

    def find_sources(self, request: Any, may_know: Callable[[str], bool]) -> set[str]:
        """Return the steps that a request in JSON quotes, among the steps that it `may_know`.

        Words that several steps left are quoted from a step that the request quotes anyway, or else
        from the last step, which has them from an earlier one or from the same file.
        """
        found: set[str] = set()
        ambiguous: list[list[str]] = []
        for words in map(_split, _texts(request)):
            for length in self._lengths:
                for run in _runs(words, length):
                    if run in self._given:
                        continue
                    known = [*filter(may_know, self._sources.get(run, ()))]
                    if len(known) == 1:
                        found.add(known[0])
                    elif known:
                        ambiguous.append(known)
                    elif length == WORDS:
                        self._given.add(run)
        for known in ambiguous:
            if found.isdisjoint(known):
                found.add(known[-1])
        return found

    def add(self, step: str, result: Any, *, echoes: Any = None) -> None:
        """Add the result of a step in JSON, without the words of a request that it `echoes`."""
        left = set(_runs_of(result)) - self._given
        if echoes is not None:
            left -= set(_runs_of(echoes))
        for run in left:
            self._sources.setdefault(run, []).append(step)
            self._lengths.add(len(run))


def _runs_of(value: Any) -> Iterator[Run]:
    for text in _texts(value):
        words = _split(text)
        if len(words) >= WORDS or (" " in text and len(text) >= _SHORTEST_CHARS):
            yield from _runs(words, min(WORDS, len(words)))


def _runs(words: list[str], length: int) -> Iterator[Run]:
    return zip(*(words[at:] for at in range(length)), strict=False)


def _split(text: str) -> list[str]:
    return _WORD.findall(_ESCAPE.sub(" ", text))


def _texts(value: Any) -> Iterator[str]:
    """Yield the texts in a JSON value, also in JSON that is written as a text, as arguments are."""
    if isinstance(value, str) and value[:1] in ("{", "["):
        with suppress(ValueError):
            value = json.loads(value)
    match value:
        case str():
            yield value
        case list():
            for item in value:
                yield from _texts(item)
        case dict():
            for name, item in value.items():
                yield name
                yield from _texts(item)


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
