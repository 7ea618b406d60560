"""Programs that a model writes over its tools: programmatic tool calling.

interpreter.py  drives the interpreter, and is the only module that knows it
program.py      one program: its calls, their order on record, and its end
stubs.py        the tools as declarations that programs are checked against
values.py       values of programs as JSON
"""
