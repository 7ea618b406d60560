"""The Prefect server and its clients in the flows.

api             the configured server, checked at once, or a private one for one command
settings        the settings that a server needs
setup           work pool, limits and automations
retry           retries while the server is unreachable
slots           the server-wide limit on cells
caching         tasks whose results are cached
stopping        signals, pauses and cancellations
turns           waiting for cells that another run holds
dispatch        the queue of a run's cells, and the interface of shards
shards          shards as flow runs
engine          Prefect's engine below the process that a worker started
flow_run        the experiment, the name, the starts and the expected ends of a flow run
events          announcements of an experiment
progress        progress of a run
logs            records in the Logs tab of a run
artifacts       removal of old artifact versions
"""
