"""Coding agents: a task, a workspace and a model in; an outcome with a patch out.

This package does not depend on SWE-bench, Prefect or Parquet. `agent.arms` holds the arms under
comparison, `agent.models` the models, and `agent.workspaces` the workspaces.
`agent.session.session` is the only connection between agent code and the outside world.

Programs import the names in `__all__`, which LIBRARY.md explains. Each is loaded at its first use.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from agent.cells.executor import Executor, StepRun, diagnose, generate_patch
    from agent.errors import Retryable, ToolFailed
    from agent.graph.names import get_reads, get_writes, infer_edges
    from agent.graph.state import ExecutionStateGraph
    from agent.library import AgentResult, DurableAgent

_PLACES = {
    "AgentResult": "agent.library",
    "DurableAgent": "agent.library",
    "ExecutionStateGraph": "agent.graph.state",
    "Executor": "agent.cells.executor",
    "Retryable": "agent.errors",
    "StepRun": "agent.cells.executor",
    "ToolFailed": "agent.errors",
    "diagnose": "agent.cells.executor",
    "generate_patch": "agent.cells.executor",
    "get_reads": "agent.graph.names",
    "get_writes": "agent.graph.names",
    "infer_edges": "agent.graph.names",
}
"""The module of each public name. It is imported when the name is first used."""

__all__ = [*_PLACES]


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module 'agent' has no attribute {name!r}")
    return getattr(import_module(_PLACES[name]), name)
