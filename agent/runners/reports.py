"""Parsers of the reports that test runners write."""

import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal
from xml.etree import ElementTree

Format = Literal["go", "cargo", "jest", "mocha", "tap", "junit", "unittest text", "rspec"]
"""The format of a report.

`go`: the events of `go test -json`. `cargo`: text of `cargo test`. `jest`: JSON of jest or vitest.
`mocha`: its JSON. `tap`: the Test Anything Protocol. `junit`: XML of JUnit, also of ctest.
`unittest text`: text of Python's unittest with `-v`, as Django prints it. `rspec`: JSON of RSpec.
"""


class Unreadable(Exception):
    """The runner's results are missing or not in its format."""


@dataclass(frozen=True)
class NamesByResult:
    """Names of tests by result."""

    passed: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    reports: dict[str, str] = field(default_factory=dict)
    """Printed text of failing tests, or the reasons of failures, by the names of tests."""
    text: str = ""
    """All that a report holds of the runner's output, if it is the output itself."""

    @property
    def failing(self) -> list[str]:
        """Tests that failed in any way."""
        return [*self.failed, *self.errors]


_UNITTEST = re.compile(
    r"^(?P<name>\w+ \([\w.]+\)).*?\.\.\. (?:.*?)(?P<status>ok|FAIL|ERROR|skipped|expected failure"
    r"|unexpected success)\b",
    re.MULTILINE | re.DOTALL,
)
_UNITTEST_END = re.compile(r"^Ran (?P<count>\d+) tests? in ", re.MULTILINE)
_UNITTEST_ERROR = re.compile(r"^ERROR: (?P<name>\S+ \([\w.]+\))", re.MULTILINE)


def _parse_unittest(text: str) -> NamesByResult:
    if not _UNITTEST_END.search(text):
        raise Unreadable("the output has no `Ran N tests`")
    names = NamesByResult()
    lists = {
        "ok": names.passed,
        "skipped": names.skipped,
        "expected failure": names.skipped,
        "ERROR": names.errors,
    }
    for test in _UNITTEST.finditer(text):
        lists.get(test["status"], names.failed).append(test["name"])
    for error in _UNITTEST_ERROR.finditer(text):
        if error["name"] not in names.errors:
            names.errors.append(error["name"])
    return names


def _parse_go(text: str) -> NamesByResult:
    names, packages = NamesByResult(), dict[str, str]()
    lists = {"pass": names.passed, "fail": names.failed, "skip": names.skipped}
    printed: list[str] = []
    of_tests: dict[str, list[str]] = defaultdict(list)
    for event in _read_events(text, printed):
        action, package, test = event.get("Action"), event.get("Package"), event.get("Test")
        if action == "output":
            of_tests[f"{package}.{test}"].append(str(event.get("Output")))
            printed.append(str(event.get("Output")))
        if test and action in lists:
            lists[action].append(f"{package}.{test}")
        elif package and action in lists:
            packages[package] = action
        elif action == "build-fail":
            packages[str(event.get("ImportPath")).partition(" ")[0]] = "fail"
    if not packages:
        raise Unreadable("`go test -json` reported no package")
    # A package that cannot be built, or whose process died, fails without a failed test.
    with_failures = {name.rpartition(".")[0] for name in names.failed}
    dead = [p for p, end in packages.items() if end == "fail" and p not in with_failures]
    names.errors.extend(dead)
    reports = {name: "".join(of_tests[name]) for name in names.failed if name in of_tests}
    return replace(names, reports=reports, text="".join(printed))


_CARGO_BINARY = re.compile(r"^\s*(?:Running (?:unittests )?(?P<file>\S+)|Doc-tests (?P<doc>\S+))")
_CARGO_TEST = re.compile(r"^test (?P<name>.+?) \.\.\. (?P<status>ok|FAILED|ignored)")
_CARGO_NOT_BUILT = re.compile(r"^error(?:\[E\d+\])?: ", re.MULTILINE)


def _parse_cargo(text: str) -> NamesByResult:
    names, binary, has_end = NamesByResult(), "", False
    lists = {"ok": names.passed, "FAILED": names.failed, "ignored": names.skipped}
    for line in text.splitlines():
        if start := _CARGO_BINARY.match(line):
            binary = start["file"] or f"doc {start['doc']}"
        elif test := _CARGO_TEST.match(line):
            name = test["name"].removesuffix(" - should panic")
            lists[test["status"]].append(f"{binary}::{name}")
        has_end = has_end or line.startswith("test result: ")
    if not has_end:
        reason = ": it could not be built" if _CARGO_NOT_BUILT.search(text) else ""
        raise Unreadable(f"cargo ran no test{reason}")
    return names


def _parse_jest(text: str) -> NamesByResult:
    names = NamesByResult()
    for file in _read_document(text).get("testResults", []):
        tests, path = file.get("assertionResults", []), _tail(file.get("name", ""))
        for test in tests:
            name = f"{path} {test.get('fullName', '').strip()}"
            if test.get("status") == "failed":
                _add_failure(names, name, "\n".join(test.get("failureMessages") or []))
            else:
                has_passed = test.get("status") == "passed"
                (names.passed if has_passed else names.skipped).append(name)
        if file.get("status") == "failed" and not any(t.get("status") == "failed" for t in tests):
            names.errors.append(path)
            if file.get("message"):
                names.reports[path] = str(file["message"])
    return names


def _tail(path: str) -> str:
    """Return a path without the folder of the workspace, which differs between workspaces."""
    for root in ("/testbed/", "/repo/"):
        if root in path:
            return path.partition(root)[2]
    return path


_MOCHA_BEGINS = '{\n  "stats": {'
"""The beginning of mocha's report, behind what tests printed."""


def _parse_mocha(text: str) -> NamesByResult:
    document = _read_document(text[max(text.rfind(_MOCHA_BEGINS), 0) :], is_last=False)

    def name(test: dict[str, Any]) -> str:
        return f"{_tail(test.get('file') or '')} {test.get('fullTitle')}"

    names = NamesByResult()
    names.passed.extend(map(name, document.get("passes", [])))
    names.skipped.extend(map(name, document.get("pending", [])))
    for test in document.get("failures", []):
        error = test.get("err") or {}
        _add_failure(names, name(test), error.get("stack") or error.get("message") or "")
    return names


_NOT_LOADED = re.compile(r"An error occurred while loading (?:\./)?(\S+?)\.?$", re.MULTILINE)


def _parse_rspec(text: str) -> NamesByResult:
    names, document = NamesByResult(), _read_document(text)
    lists = {"passed": names.passed, "pending": names.skipped}
    for test in document.get("examples", []):
        path = _tail(test.get("file_path") or "").removeprefix("./")
        name = f"{path} {test.get('full_description')}"
        if test.get("status") in lists:
            lists[test["status"]].append(name)
            continue
        error = test.get("exception") or {}
        kind = str(error.get("class"))
        (names.failed if kind.endswith("ExpectationNotMetError") else names.errors).append(name)
        names.reports[name] = f"{kind}\n{str(error.get('message')).strip()}"
    for message in document.get("messages") or ():
        if place := _NOT_LOADED.search(message):
            names.errors.append(_tail(place[1]))
            names.reports[_tail(place[1])] = message.strip()
    if document.get("summary", {}).get("errors_outside_of_examples_count") and not names.errors:
        names.errors.append("outside of examples")
    return names


_TAP = re.compile(
    r"^(?P<indent> *)(?P<status>ok|not ok) \d+(?: -)? (?P<name>.*?)"
    r"(?P<directive> # (?:SKIP|(?:TO)DO)\b.*)?$",
    re.IGNORECASE,
)
_TAP_PLAN = re.compile(r"^1\.\.(\d+)", re.MULTILINE)


@dataclass
class _TapTest:
    name: str
    has_passed: bool
    is_skipped: bool
    lines: list[str] = field(default_factory=list)
    """The lines after its result."""


def _parse_tap(text: str) -> NamesByResult:
    """Return the tests of a TAP stream. A test with subtests is named like its subtests."""
    if not _TAP_PLAN.search(text):
        raise Unreadable("the output has no TAP plan")
    names, inner, lines = NamesByResult(text=text), dict[int, list[_TapTest]](), list[str]()
    for line in text.splitlines():
        if not (test := _TAP.match(line)):
            if not line.strip().startswith("1.."):  # the plan belongs to no test
                lines.append(line)
            continue
        depth, lines = len(test["indent"]) // 4, []
        name, skipped = test["name"].strip(), test["directive"] is not None
        tests = inner.pop(depth + 1, [])
        for each in tests:
            each.name = f"{name} > {each.name}"
        has_passed = test["status"] == "ok"
        if all(each.has_passed for each in tests) and not (tests and has_passed):
            tests.append(_TapTest(name, has_passed, skipped, lines))
        inner.setdefault(depth, []).extend(tests)
    for each in inner.get(0, []):
        if each.is_skipped:
            names.skipped.append(each.name)
        elif each.has_passed:
            names.passed.append(each.name)
        else:
            _add_failure(names, each.name, "\n".join(each.lines).strip("\n"))
    return names


_BY_ERROR = re.compile(r"(?:^|')(?:Type|Reference|Range|Syntax)Error\b|Cannot find module", re.M)


def _add_failure(names: NamesByResult, name: str, report: str) -> None:
    """Add a failed test of JavaScript: an error if its report shows no failed assertion."""
    (names.errors if _BY_ERROR.search(report) else names.failed).append(name)
    if report:
        names.reports[name] = report


def _read_events(text: str, others: list[str]) -> Iterator[dict[str, Any]]:
    """Yield the JSON objects of a text with such lines. Collect all other lines."""
    for line in text.splitlines(keepends=True):
        try:
            event = json.loads(line) if line.startswith("{") else None
        except (ValueError, RecursionError):
            event = None
        if isinstance(event, dict):
            yield event
        else:
            others.append(line)


def _read_document(text: str, *, is_last: bool = True) -> dict[str, Any]:
    """Return the JSON object in a text. `is_last` is False if other text may follow it."""
    try:
        document = json.loads(text) if is_last else json.JSONDecoder().raw_decode(text)[0]
    except (ValueError, RecursionError):
        raise Unreadable("the runner wrote no JSON report") from None
    if not isinstance(document, dict):
        raise Unreadable("the runner's report is not a JSON object")
    return document


def _parse_junit(text: str) -> NamesByResult:
    names = NamesByResult()
    for document in filter(str.strip, re.split(r"(?=<\?xml )", text)):
        if "<!DOCTYPE" in document:
            raise Unreadable("the runner's report declares entities")
        try:
            root = ElementTree.fromstring(document)  # noqa: S314 (no entities)
        except ElementTree.ParseError:
            raise Unreadable("the runner's report is not XML") from None
        for suite in root.iter("testsuite"):
            _read_junit_suite(suite, names)
    if not (names.passed or names.failing or names.skipped):
        raise Unreadable("the runner wrote no report of a test")
    return names


def _read_junit_suite(suite: ElementTree.Element, names: NamesByResult) -> None:
    cases = suite.findall("testcase")
    stated = suite.get("tests")
    if cases and stated is not None and stated != str(len(cases)):
        raise Unreadable(f"the report counts {stated} tests and names {len(cases)}")
    for case in cases:
        name = ".".join(filter(None, (case.get("classname"), case.get("name"))))
        lists = {"error": names.errors, "failure": names.failed, "skipped": names.skipped}
        kind = next((kind for kind in lists if case.find(kind) is not None), "")
        lists.get(kind, names.passed).append(name)
        if kind in ("error", "failure") and (reason := case.find(kind)) is not None:
            names.reports[name] = f"{reason.get('message') or ''}\n{reason.text or ''}".strip()


_PARSERS: Mapping[Format, Callable[[str], NamesByResult]] = {
    "unittest text": _parse_unittest,
    "go": _parse_go,
    "cargo": _parse_cargo,
    "jest": _parse_jest,
    "mocha": _parse_mocha,
    "tap": _parse_tap,
    "junit": _parse_junit,
    "rspec": _parse_rspec,
}

FORMATS = frozenset(_PARSERS)
"""Every format of a report."""


def parse(kind: Format, text: str) -> NamesByResult:
    """Return the tests in a runner's report.

    Raises:
        Unreadable: the text does not have this format.
    """
    return _PARSERS[kind](text)


def read(kind: Format, text: str, exit_code: int) -> tuple[NamesByResult, str]:
    """Return the tests in a report, and the reason why they prove nothing, or ''."""
    try:
        names = parse(kind, text)
    except Unreadable as error:
        return NamesByResult(), f"{error} (exit code {exit_code})"
    if exit_code == 0 and names.failing:
        return names, f"the exit code is 0, although tests failed, such as {names.failing[0]}"
    if exit_code != 0 and not names.failing:
        return names, f"the exit code is {exit_code}, although no test failed"
    return names, "" if names.passed or names.failing else "no test ran"
