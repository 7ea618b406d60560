"""The graph of pieces of Python that run one after the other and share their variables."""

from collections.abc import Mapping

from agent.graph.names import NameReader
from agent.graph.state import ExecutionStateGraph
from agent.graph.walk import Names


def infer_edges(sources: Mapping[str, str]) -> ExecutionStateGraph:
    """Return the graph of pieces of Python by id, in the order in which they run.

    A piece depends on the last one before it that wrote what it reads. One that may leave a
    variable as it was also depends on its writer. After a piece whose names the text does not show,
    such as `exec`, everything depends on it.

    Raises:
        SyntaxError: a piece is not Python.
    """
    made = ExecutionStateGraph()
    reader = NameReader()
    writers: dict[str, str] = {}
    opaque: str | None = None
    for step, source in sources.items():
        names = reader.read(source)
        made.add_step(step, reads=_read_before(names, writers), writes=names.writes, label=source)
        _connect(made, step, names, writers, opaque)
        writers.update(dict.fromkeys(names.writes, step))
        if names.is_opaque:
            opaque = step
            writers.update(dict.fromkeys(writers, step))
    return made


def _read_before(names: Names, writers: Mapping[str, str]) -> set[str]:
    """Return the variables that flow into a piece: those that an earlier piece wrote."""
    if names.is_opaque:
        return set(writers)
    return {name for name in names.reads | names.kept if name in writers}


def _connect(
    made: ExecutionStateGraph,
    step: str,
    names: Names,
    writers: Mapping[str, str],
    opaque: str | None,
) -> None:
    by_writer: dict[str, set[str]] = {}
    for name in _read_before(names, writers):
        by_writer.setdefault(writers[name], set()).add(name)
    if opaque is not None:
        by_writer.setdefault(opaque, set())
    for writer, variables in by_writer.items():
        made.add_edge(writer, step, variables)
