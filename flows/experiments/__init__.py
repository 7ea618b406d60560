"""Experiments: what is declared, which cells that makes, and how they stand.

declaration  an experiment as written in YAML
plan         its cells
cells        a cell and a submission
keys         every cache key
cell_state   what the lake records of a cell
records      rows of attempts, steps and gradings
workspaces   where a cell runs
stop         the request to stop a run
status       progress and cost of whole experiments
forking      a new attempt from a step of another one
power        what an experiment can show
"""
