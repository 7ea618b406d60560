"""The records of a run of tests, signed in the process of the runner.

Everything that is needed later is bound before any code of the repository is imported, so that
functions that are replaced afterwards do not matter here. The key is only in a closure.
"""

import atexit
import binascii
import hashlib
import os
import sys
import types

MAX_REPORT = 6000
BUILTINS = (
    "AssertionError BaseException Exception __build_class__ __import__ all any bool compile "
    "eval exec getattr hasattr isinstance issubclass len repr str type"
).split()

_exit, _run_exit_functions = os._exit, atexit._run_exitfuncs


def open_channel(descriptor, key):
    """Return a function that signs and writes a record, and one that lets functions call it."""
    os.set_inheritable(descriptor, False)
    sha256, encode, write, getpid = hashlib.sha256, binascii.hexlify, os.write, os.getpid
    caller, owner, allowed, last = sys._getframe, os.getpid(), set(), [b""]

    def record(*fields):
        if getpid() != owner:  # a fork of the runner is not the runner
            return
        given = fields if caller(1).f_code in allowed else ("tampered", "the harness's records")
        body = b",".join([encode(field.encode("utf-8", "replace")) for field in given])
        inner = sha256(key + last[0] + body).digest()
        last[0] = encode(sha256(key + inner).digest())
        line = body + b" " + last[0] + b"\n"
        while line:
            line = line[write(descriptor, line) :]

    def allow(*functions):
        allowed.update([function.__code__ for function in functions])

    return record, allow


def shorten(text):
    """Return the head and the tail of a long report."""
    if len(text) <= MAX_REPORT:
        return text
    half = MAX_REPORT // 2
    return text[:half] + "\n[...]\n" + text[-half:]


class Fingerprint:
    """Functions and classes of the test runner, as they were before any code under test."""

    def __init__(self):
        self._entries = []

    def add_modules(self, *names):
        """Watch the functions of modules and of their classes."""
        for name in names:
            module = sys.modules.get(name)
            if module is None:
                continue
            self._add(module)
            for value in list(vars(module).values()):
                if isinstance(value, type) and value.__module__ == name:
                    self._add(value)

    def _add(self, holder):
        for name, value in list(vars(holder).items()):
            function = getattr(value, "__func__", value)
            if isinstance(function, types.FunctionType):
                self._entries.append((holder, name, value, function, function.__code__))
            elif isinstance(value, (type, property)) and not name.startswith("__"):
                self._entries.append((holder, name, value, None, None))

    def add_names(self, holder, names):
        """Watch attributes of any type."""
        for name in names:
            if name in vars(holder):
                self._entries.append((holder, name, vars(holder)[name], None, None))

    def find_change(self):
        """Return the name of an attribute that is not what it was, or ''."""
        for holder, name, value, function, code in self._entries:
            now = holder.__dict__.get(name)
            if now is not value or (function is not None and function.__code__ is not code):
                return holder.__name__ + "." + name
        return ""


def exit_code_of(program):
    """Run a function as the main program. Return its exit code."""
    try:
        program()
    except SystemExit as end:
        if end.code is None or isinstance(end.code, int):
            return int(end.code or 0)
        sys.stderr.write(str(end.code) + "\n")
        return 1
    return 0


def run_script(path, arguments):
    """Run a Python file as the main program. Return its exit code."""
    sys.argv = [path] + arguments
    sys.path.insert(0, os.path.dirname(os.path.abspath(path)))
    scope = vars(sys.modules["__main__"])
    scope["__file__"] = path
    with open(path, "rb") as stream:
        code = compile(stream.read(), path, "exec")
    return exit_code_of(lambda: exec(code, scope))


def finish(record, code):
    """Record the exit code before exit functions can run, and end the process with it."""
    record("end", str(code))
    try:
        _run_exit_functions()
    except BaseException as error:
        sys.stderr.write(repr(error) + "\n")
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except Exception:
            pass
    _exit(code)
