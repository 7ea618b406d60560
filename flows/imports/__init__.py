"""Results from other systems.

predictions  patches to be graded
mini         trajectories of mini-swe-agent
swebench     reports of swebench's runner
table        published tables, read by sheets
atif         ATIF trajectories, found and put together by atif_files
inspect_logs logs of Inspect, whose events inspect_events reads
harbor       job folders of Harbor
traces       attempts with their steps, which filing writes to the lake
common       arms side by side under one name
"""
