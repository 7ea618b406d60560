"""Results from other systems.

predictions  patches to be graded
mini         trajectories of mini-swe-agent
swebench     reports of swebench's runner
table        published tables, read by sheets
common       arms side by side under one name
"""
