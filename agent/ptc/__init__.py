"""Programs that a model writes over its tools: programmatic tool calling.

tool.py         the tool of a conversation that runs programs, with its prompt in tool.md
program.py      one program: its calls, their order on record, and its end
interpreter.py  drives the interpreter, and is the only module that imports it
stubs.py        the tools as declarations that programs are checked against
values.py       values of programs as JSON
remedies.py     what the interpreter lacks: translated, or explained
"""
