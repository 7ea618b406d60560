"""Coding agents: a task, a workspace and a model in; an outcome with a patch out.

This package does not depend on SWE-bench, Prefect or Parquet. `agent.arms` holds the arms under
comparison, `agent.models` the models, and `agent.workspaces` the workspaces.
`agent.session.session` is the only connection between agent code and the outside world.
"""
