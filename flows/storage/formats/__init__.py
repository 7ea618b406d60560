"""Attempts of a lake in formats that other programs read.

facts            facts that a format has no field for, in an object of our own
filed            attempts of a lake with their rows
talk             rows of steps as turns of conversations
shells           names of tools that run commands
atif             trajectories in the Agent Trajectory Interchange Format
inspect_export   logs of Inspect, whose samples inspect_samples makes
inspect_package  Inspect's package, which is an extra
export           the files
"""
