"""Results from elsewhere.

predictions  patches that wait for their verdict
mini         trajectories of mini-swe-agent
swebench     reports of swebench's runner
table        published tables, read by sheets
common       arms side by side under one name
"""
