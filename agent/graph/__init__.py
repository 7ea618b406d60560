"""Dependencies between steps, and the steps that a change makes stale.

state      the execution-state graph
names      the names that a piece of Python reads and writes
inference  the graph of pieces of Python
attempt    the graph of a recorded attempt
drawing    a graph as text
walk       names in the order in which Python runs
scopes     what parts of a syntax tree bind, hold and change
"""

from agent.graph.inference import infer_edges
from agent.graph.names import get_reads, get_writes
from agent.graph.state import ExecutionStateGraph, Node, State

__all__ = ["ExecutionStateGraph", "Node", "State", "get_reads", "get_writes", "infer_edges"]
