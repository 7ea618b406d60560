"""The command line: a file for each command, and what they share.

app          all commands
exits        exit codes, and errors as one line
options      options of several commands
running      flows that a command runs and waits for
console      tables and lines on the terminal
status_text  the output of `status`
tracing      the output of `trace`
"""
