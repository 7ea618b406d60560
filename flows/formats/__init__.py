"""Attempts of other systems for the lake, and attempts of a lake for other programs.

A format reads files as `ReadFiles`, whose attempts have their steps in ATIF, and `filing` writes
these to the lake. `filed` returns attempts of a lake in the same form, and a format writes them.

attempts        the model of an attempt: facts, and steps of ATIF
steps, talk     steps of ATIF as rows of the lake, and back from any dialect of requests
filing, filed   attempts to the lake, and from it
imported_arms   arms side by side under one name
lake_rows       the columns that all imports share
atif            trajectories in the Agent Trajectory Interchange Format
mini            trajectories of mini-swe-agent
harbor          job folders of Harbor
inspect_logs    logs of Inspect, with inspect_events; inspect_export and inspect_samples write them
swebench        reports and predictions files of swebench
predictions     predictions files that are graded here
tables          published tables, which sheets reads with DuckDB and cells parses
exports         what `durabench export` writes
"""
