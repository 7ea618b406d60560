"""The command line: one file per command, plus shared modules.

app          registers all commands
exits        exit codes, and errors as one line
options      options shared by several commands
running      commands that run a flow and wait for it
console      tables and lines on the terminal
status_text  the output of `status`
tracing      the output of `trace`
chatting     a chat on the terminal: what is typed, and what the agent does
prompting    lines that a person types while steps are printed
messages     messages to an attempt, and what was said
"""
