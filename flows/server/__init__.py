"""Prefect: the server in use, and what flows need of it.

api             the server of a command, or one of its own
first_contact   whether it answers, and is one of Prefect's
settings        the settings that a server needs
setup           work pool, limits and automations
retry           patience with a server that is unreachable
caching         tasks whose results are cached
stopping        signals, pauses and cancellations
turns           cells that another run holds
fanout          cells as flow runs on workers
heartbeats      flow runs that died
events          announcements of an experiment
progress        how far a run is
step_task_runs  steps as task runs
artifacts       artifacts that are no longer needed
"""
