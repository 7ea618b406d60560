"""An agent in four stages: it explores, plans, builds each subtask, and verifies with repairs.

arm.py           the order of the stages, and the outcome
stages.py        the conversation of each stage, its answer, and the test of the change

The prompt of a stage is the .md file of its name.
"""
