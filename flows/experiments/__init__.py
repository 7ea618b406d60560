"""Experiments: their declaration, their cells, and the state of the cells.

arms         an arm of an experiment or a job
declaration  an experiment as written in YAML
plan         the cells of an experiment
cells        a cell and a submission, and the test runner of a cell
keys         all cache keys
cell_state   the recorded state of a cell, and ways in which a run of an attempt ends
records      rows of attempts, steps and gradings
workspaces   environment and workspace of a cell
stop         the request to stop a run
status       progress and cost of whole experiments
forking      a new attempt from a step of another one
power        statistical power of a planned experiment
"""
