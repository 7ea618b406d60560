"""Dependencies between steps, and the steps that a change makes stale.

state      the execution-state graph
attempt    the graph of a recorded attempt
drawing    a graph as text
"""

from agent.graph.state import ExecutionStateGraph, Node, State

__all__ = ["ExecutionStateGraph", "Node", "State"]
