"""A running attempt: steps that are recorded once and replayed afterwards.

session    the interface that an arm works through
steps      steps and their journal format
log        records the steps of a session
reuse      steps of a parent that answer those of its fork
workbench  the workspace of one line of work
deadlines  time limits
turns      model calls at work when a person ends the turn
"""
