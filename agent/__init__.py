"""Coding agents: a task, a workspace and a model in; an outcome with a patch out.

Nothing here knows SWE-bench, Prefect or Parquet. `agent.arms` holds the arms under
comparison, `agent.models` what answers them, `agent.workspaces` where they work, and
`agent.session.session` the one door between agent code and the world.
"""
