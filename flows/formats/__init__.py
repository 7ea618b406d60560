"""Attempts of other systems for the lake, and attempts of a lake for other programs.

A format reads files as `ReadFiles`, whose attempts have their steps in ATIF, and `filing` writes
these to the lake. `exports` reads attempts of a lake in the same form, and a format writes them.

attempts        the model of an attempt: facts, and steps of ATIF
call_counts     the number of calls of a trajectory, without its texts
step_rows       rows of the lake from steps of ATIF
atif_steps      steps of ATIF from rows of the lake, in any dialect of requests
filing          attempts to the lake
imported_arms   arms side by side under one name
lake_rows       the columns that all imports share
atif            trajectories in the Agent Trajectory Interchange Format
mini            trajectories of mini-swe-agent
harbor          job folders of Harbor
inspect_import  logs of Inspect; inspect_export writes them
swebench        reports and predictions files of swebench
predictions     predictions files that are graded here
tables          published tables, with table_files for DuckDB and table_columns for their cells
exports         what `durabench export` writes
"""
