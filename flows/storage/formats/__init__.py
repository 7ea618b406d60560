"""Attempts of a lake in formats that other programs read.

facts    what a format has no field for, in an object of our own
filed    attempts of a lake with their rows
talk     rows of steps as turns of conversations
atif     trajectories in the Agent Trajectory Interchange Format
inspect  logs of Inspect
"""
