"""A notebook of Python cells whose variables survive the interpreter and the container.

notebook   the cells of one agent: run, edit, replay, and stale cells
running    one cell as a step in the workspace, and its record
diagnosis  the reason of a failure, and the patch for a misspelt name or a missing import
executor   steps of Python in this process, for programs
offering   the tools of the model
inside     the program that runs a cell in the workspace

Each cell runs in a separate interpreter, with the variables that it reads. Variables are stored
by content outside the repository, so the reads and writes of a cell are known exactly. The journal
has the record of each run. If the store is lost with its container, only the cells run again whose
variables are needed.
"""
