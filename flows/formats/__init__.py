"""Results of other systems, and attempts of a lake as other programs read them.

predictions     patches to be graded
mini            trajectories of mini-swe-agent
swebench        reports of swebench's runner
tables          published tables, which sheets reads and cells parses
atif            ATIF trajectories, found and put together by atif_files; atif_export writes them
inspect_logs    logs of Inspect, whose events inspect_events reads; inspect_export writes them
harbor          job folders of Harbor
traces          attempts with their steps, which filing writes to the lake
filed           attempts of a lake with their rows, whose steps talk reads as conversations
imported_arms   arms side by side under one name
exports         predictions, recordings and relations as files
"""
