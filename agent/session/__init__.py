"""An attempt while it runs: steps that are recorded once and replayed afterwards.

session    what an arm works through
steps      steps, and their form in the journal
log        where a session records its steps
workbench  the workspace of one line of work
deadlines  limits on time
"""
