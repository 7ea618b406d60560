"""The command line: the commands by group, plus shared modules.

app          registers all commands
start        demo, run, init, status, doctor
compare      power, grade, export
attempts     debug, trace, graph, diagnose, fork
operate      setup, serve-flows, prune
declarations experiments that options declare or change
exits        exit codes, and errors as one line
options      options shared by several commands
running      commands that run a flow and wait for it
console      tables and lines on the terminal
status_text  the output of `status`
tracing      the output of `trace`, `graph` and `diagnose`
"""
