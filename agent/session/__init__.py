"""A running attempt: steps that are recorded once and replayed afterwards.

session    the interface that an arm works through
stepping   makes one step of a scope
steps      steps, before and after they happen, and their journal format
log        records the steps of a session
mail       messages from people, as the steps of an attempt read them
reuse      recorded steps of a parent that answer its fork
workbench  the workspaces of an attempt, one for each line of work
limits     deadlines, gates and ends of turns
"""
