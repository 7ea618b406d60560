"""Runs SymPy's `bin/test`, and records the calls of its reporter."""

import builtins
import importlib.machinery
import os
import sys
import traceback

REPORTERS = ("sympy.testing.runtests", "sympy.utilities.runtests")
OUTCOMES = {
    "test_pass": "passed",
    "test_fail": "failed",
    "test_exception": "error",
    "test_skip": "skipped",
    "test_xfail": "skipped",
    "test_xpass": "error",
}


class ReporterFinder:
    """Instruments the module of the reporter when the program imports it."""

    def __init__(self, instrument):
        self._instrument = instrument
        self._find = importlib.machinery.PathFinder.find_spec

    def find_spec(self, name, path=None, target=None):
        if name not in REPORTERS:
            return None
        spec = self._find(name, path, target)
        if spec is None:
            return None
        load, instrument = spec.loader.exec_module, self._instrument

        def exec_module(module):
            load(module)
            if hasattr(module, "PyTestReporter"):
                instrument(module)

        spec.loader.exec_module = exec_module
        return spec


def observe(record, fingerprint, root):
    """Return a function that wraps the reporter's methods, and the functions that record."""
    current = ["", ""]
    relative, join, traced = os.path.relpath, "".join, traceback.format_exception

    def entering_filename(self, filename, n):
        current[0] = relative(str(filename), root)
        return originals["entering_filename"](self, filename, n)

    def entering_test(self, function):
        current[1] = current[0] + "::" + function.__name__
        record("collected", current[1])
        return originals["entering_test"](self, function)

    def import_error(self, filename, exc_info):
        text = shorten(join(traced(*exc_info)))
        record("result", relative(str(filename), root), "collect", "error", text)
        return originals["import_error"](self, filename, exc_info)

    def reporting(name, outcome):
        def method(self, *details):
            text, kind = "", outcome
            if details and isinstance(details[0], tuple):
                text = shorten(join(traced(*details[0])))
                if details[0][0].__name__ == "Failed":  # DID NOT RAISE
                    kind = "failed"
            record("result", current[1], "call", kind, text)
            changed = fingerprint.find_change()
            if changed:
                record("tampered", changed)
            record("stopped", current[1])
            return originals[name](self, *details)

        return method

    replaced = {name: reporting(name, outcome) for name, outcome in OUTCOMES.items()}
    for function in (entering_filename, entering_test, import_error):
        replaced[function.__name__] = function
    originals = {}

    def instrument(module):
        for name, function in replaced.items():
            originals[name] = getattr(module.PyTestReporter, name)
            setattr(module.PyTestReporter, name, function)
        fingerprint.add_modules(module.__name__)

    return instrument, list(replaced.values())


def main():
    """Run the program in this process, as it is with a hash seed, and end the process."""
    record, allow_record = open_channel(RECORDS, GIVEN.pop("key").encode())
    fingerprint = Fingerprint()
    fingerprint.add_names(builtins, BUILTINS)
    instrument, recording = observe(record, fingerprint, os.getcwd())
    allow_record(main, finish, *recording)
    sys.meta_path.insert(0, ReporterFinder(instrument))
    target, arguments = GIVEN["target"], GIVEN["arguments"]
    record("begin", "sympy")
    code = run_script(target, arguments)
    changed = fingerprint.find_change()
    if changed:
        record("tampered", changed)
    finish(record, code)


main()
