"""`durabench serve`: jobs over HTTP, and pages to follow them.

Prefect is the queue and the scheduler, the lake has the results, the journal the steps. The
service stores nothing.

app     the program: address, token, start and end, answers to errors
guard   who may ask: token, origin, size and rate
board   the state of jobs and runs, from Prefect and the lake
feed    the steps of jobs while they work, and the WebSocket
orders  bodies as jobs and pipelines; submit, say, cancel, approve and revise
routes  JSON
views   what answers and pages show
pages   pages and forms
"""
