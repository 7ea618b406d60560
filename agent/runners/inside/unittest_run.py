"""Runs a program that reports to `unittest.TestResult`, such as Django's `runtests.py`."""

import builtins
import os
import sys
import traceback
import unittest
import unittest.case
import unittest.loader
import unittest.result
import unittest.runner
import unittest.suite

UNITTEST_MODULES = "unittest.case unittest.result unittest.suite unittest.loader".split()
OUTCOMES = {
    "addSuccess": "passed",
    "addFailure": "failed",
    "addError": "error",
    "addSkip": "skipped",
    "addExpectedFailure": "skipped",
    "addUnexpectedSuccess": "error",
}


def observe(record, fingerprint):
    """Wrap the methods that report results. Subclasses call them."""
    base = unittest.result.TestResult
    report = "".join
    traced = traceback.format_exception
    wrapped = []
    running = []  # a test may run other tests, whose results are not of this run

    def is_own(test):
        return not running or running[0] is test

    def reporting(name, outcome):
        original = getattr(base, name)

        def method(self, test, *details):
            text = ""
            if details and isinstance(details[0], tuple):
                text = shorten(report(traced(*details[0])))
            if is_own(test):
                record("result", test.id(), "call", outcome, text)
            return original(self, test, *details)

        return method

    for name, outcome in OUTCOMES.items():
        setattr(base, name, reporting(name, outcome))
        wrapped.append(getattr(base, name))

    original_start, original_stop = base.startTest, base.stopTest
    original_subtest = base.addSubTest

    def startTest(self, test):
        running.append(test)
        if is_own(test):
            record("collected", test.id())
        return original_start(self, test)

    def stopTest(self, test):
        if is_own(test):
            changed = fingerprint.find_change()
            if changed:
                record("tampered", changed)
            record("stopped", test.id())
            running.clear()
        return original_stop(self, test)

    def addSubTest(self, test, subtest, err):
        if err is not None and is_own(test):
            outcome = "failed" if issubclass(err[0], test.failureException) else "error"
            record("result", test.id(), "call", outcome, shorten(report(traced(*err))))
        return original_subtest(self, test, subtest, err)

    base.startTest, base.stopTest, base.addSubTest = startTest, stopTest, addSubTest
    return wrapped + [startTest, stopTest, addSubTest]


def run_program(target, arguments):
    """Run the target as the main program. Return its exit code."""
    if not GIVEN["is_module"]:
        return run_script(target, arguments)
    sys.argv = ["python -m unittest"] + arguments
    sys.path.insert(0, os.getcwd())
    return exit_code_of(lambda: unittest.main(module=None, argv=sys.argv))


def main():
    """Run the program and end the process."""
    record, allow_record = open_channel(RECORDS, GIVEN.pop("key").encode())
    fingerprint = Fingerprint()
    allow_record(main, finish, *observe(record, fingerprint))
    fingerprint.add_modules(*UNITTEST_MODULES)
    fingerprint.add_names(builtins, BUILTINS)
    record("begin", "unittest")
    code = run_program(GIVEN["target"], GIVEN["arguments"])
    changed = fingerprint.find_change()
    if changed:
        record("tampered", changed)
    finish(record, code)


main()
