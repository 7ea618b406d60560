"""Runs pytest, 3 or later, with a plugin that records each test as it is seen from outside."""

import builtins
import hashlib
import os
import sys
import unittest

PYTEST_MODULES = (
    "pluggy pluggy.hooks pluggy.callers pluggy.manager pluggy._hooks pluggy._callers "
    "pluggy._manager pluggy._result _pytest.vendored_packages.pluggy _pytest.runner "
    "_pytest.reports _pytest.outcomes _pytest.skipping _pytest.main _pytest.python "
    "_pytest.unittest _pytest.python_api _pytest.raises _pytest.nodes _pytest.assertion "
    "_pytest.assertion.rewrite _pytest.assertion.util _pytest._code.code unittest.case pytest"
).split()


WATCHED_HOOKS = (
    "pytest_pyfunc_call pytest_runtest_protocol pytest_runtest_setup pytest_runtest_call "
    "pytest_runtest_teardown pytest_runtest_makereport pytest_runtestloop pytest_collection "
    "pytest_collection_modifyitems pytest_make_collect_report pytest_pycollect_makemodule "
    "pytest_pycollect_makeitem pytest_fixture_setup pytest_cmdline_main pytest_assertrepr_compare"
).split()


class Hooks:
    """The functions behind pytest's hooks. The code under test may not add or replace any."""

    def __init__(self, manager):
        self._callers = [
            getattr(manager.hook, name) for name in WATCHED_HOOKS if hasattr(manager.hook, name)
        ]
        self._known = {}
        self._root = os.path.join(os.getcwd(), "")
        # pytest may be the repository itself, and registers its own plugins at any time.
        self._own = os.path.join(os.path.dirname(sys.modules["_pytest"].__file__), "")
        self._is_file = os.path.isfile
        self.learn()

    def learn(self):
        """Snapshot the current functions of the runner."""
        for caller in self._callers:
            for one in self._of(caller):
                self._known[id(one)] = one, one.function

    def _of(self, caller):
        if hasattr(caller, "get_hookimpls"):
            return caller.get_hookimpls()
        return caller._nonwrappers + caller._wrappers  # pytest before 3.7

    def find_change(self):
        """Return the name of a hook that the code under test changed, or ''."""
        for caller in self._callers:
            for one in self._of(caller):
                _, function = self._known.get(id(one), (None, None))
                if function is None and self.is_allowed(one.function):
                    self._known[id(one)] = one, one.function
                elif function is not one.function:
                    return "the hook " + caller.name
        return ""

    def is_allowed(self, function):
        """Return True for tests, and for files outside of the repository."""
        name = getattr(getattr(function, "__code__", None), "co_filename", "")
        if not self._is_file(name):
            return False
        if not name.startswith(self._root) or name.startswith(self._own):
            return True
        folders = name[len(self._root) :].split("/")
        return folders[-1].startswith(("conftest.", "test_")) or "tests" in folders


class Observer:
    """A plugin of pytest. Its hooks wrap all others."""

    def __init__(self, pytest, record):
        self.assertions = (AssertionError, pytest.fail.Exception)
        skips = [pytest.skip.Exception, unittest.SkipTest]
        self.skips = tuple(skips + [getattr(pytest.xfail, "Exception", pytest.skip.Exception)])
        self.record = record
        self.seen = {}
        self.codes = {}
        self.fingerprint = Fingerprint()
        self.hooks = None
        self.finders = []
        self.open, self.read, self.close = os.open, os.read, os.close
        self.sha256 = hashlib.sha256

    def check(self):
        if self.hooks is None:  # pytest ended before it read its configuration
            return
        changed = self.fingerprint.find_change() or self.hooks.find_change()
        if changed:
            self.record("tampered", changed)
        for finder in sys.meta_path:  # up to the one of pytest, which loads the tests
            if finder in self.finders:
                return
            find = getattr(finder, "find_spec", None) or getattr(finder, "find_module", None)
            if not self.hooks.is_allowed(find):
                self.record("tampered", "how tests are imported")

    def plugin(self, pytest):
        """Return the plugin. pytest reads its hooks from the class."""
        observer, record, wrapper = (
            self,
            self.record,
            pytest.hookimpl(hookwrapper=True, tryfirst=True),
        )

        class Plugin:
            @wrapper
            def pytest_load_initial_conftests(self, early_config, args):
                if early_config.pluginmanager.hasplugin("xdist"):
                    args.extend(["-n", "0"])  # other processes have no channel
                observer.fingerprint.add_modules(*PYTEST_MODULES)
                observer.fingerprint.add_names(builtins, BUILTINS)
                observer.finders = list(sys.meta_path)
                observer.hooks = Hooks(early_config.pluginmanager)
                yield
                # Plugins that conftest files name may be modules of the repository.
                observer.hooks.learn()

            @pytest.hookimpl(tryfirst=True)
            def pytest_collectstart(self, collector):
                path = getattr(collector, "fspath", None)
                if path is not None and str(path).endswith(".py"):
                    name = os.path.realpath(str(path))
                    record("file", name, observer.digest(name))

            @pytest.hookimpl(tryfirst=True)
            def pytest_collectreport(self, report):
                if report.failed:
                    record("result", report.nodeid, "collect", "error", text_of(report))

            @wrapper
            def pytest_collection_finish(self, session):
                yield
                observer.check()
                for item in session.items:
                    observer.codes[id(item)] = item, code_of(item)
                    record("collected", item.nodeid)

            @wrapper
            def pytest_runtest_call(self, item):
                if code_of(item) is not observer.codes.get(id(item), (None, None))[1]:
                    record("tampered", "the test " + item.nodeid)
                outcome = yield
                raised = outcome.excinfo
                observer.seen[item.nodeid] = raised[0] if raised else None

            @wrapper
            def pytest_runtest_makereport(self, item, call):
                outcome = yield
                report = outcome.get_result()
                kind, text = observer.judge(item.nodeid, call, report)
                if kind:
                    record("result", item.nodeid, call.when, kind, text)
                if call.when == "teardown":
                    observer.check()

        allow_record(*[value for value in vars(Plugin).values() if hasattr(value, "__code__")])
        return Plugin()

    def judge(self, name, call, report):
        """Return the outcome of a phase, and its report. '' if it is a part of a phase."""
        nothing_seen = object()
        seen = self.seen.pop(name, nothing_seen) if call.when == "call" else None
        if report.failed:
            raised = call.excinfo.type if call.excinfo is not None else seen
            is_assertion = isinstance(raised, type) and issubclass(raised, self.assertions)
            at_assertion = call.when == "call" and is_assertion
            return ("failed" if at_assertion else "error"), text_of(report)
        if report.skipped:
            return "skipped", ""
        if seen is nothing_seen:  # such as a subtest, whose test is still running
            return "", ""
        raised = call.excinfo.type if call.excinfo is not None else seen
        if raised is not None and not issubclass(raised, self.skips):
            return "error", "a failure was turned into a pass: " + raised.__name__
        return "passed", ""

    def digest(self, name):
        """Return the SHA-256 of a file, by functions of C alone."""
        try:
            descriptor = self.open(name, os.O_RDONLY)
        except OSError:
            return ""
        digest = self.sha256()
        while True:
            chunk = self.read(descriptor, 1 << 20)
            if not chunk:
                self.close(descriptor)
                return digest.hexdigest()
            digest.update(chunk)


def text_of(report):
    """Return the text of a failed report."""
    return shorten(str(report.longrepr or ""))


def code_of(item):
    """Return the code of a test function; None for other kinds of tests."""
    return getattr(getattr(item, "function", None), "__code__", None)


def main():
    """Run pytest and end the process."""
    global allow_record
    try:
        import pytest
    except ImportError as error:
        sys.stderr.write(str(error) + "\n")
        sys.stderr.flush()
        _exit(1)
    record, allow_record = open_channel(RECORDS, GIVEN.pop("key").encode())
    if GIVEN["cwd_on_path"]:
        sys.path.insert(0, os.getcwd())
    sys.argv = ["pytest"] + GIVEN["arguments"]
    observer = Observer(pytest, record)
    allow_record(main, finish, Observer.check)
    record("begin", "pytest " + pytest.__version__)
    code = int(pytest.main(GIVEN["arguments"], plugins=[observer.plugin(pytest)]))
    observer.check()
    finish(record, code)


main()
