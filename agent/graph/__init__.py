"""Dependencies between steps, and the steps that a change makes stale.

state      the execution-state graph
names      names that Python reads and writes, from its text
attempt    the graph of a recorded attempt: quotations, scopes, writers of files
drawing    a graph as text
"""

from agent.graph.state import ExecutionStateGraph, State
