"""Parsers of test results in the formats of `suites.Format`."""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from agent.project.suites import Format


class Unreadable(Exception):
    """The runner's results are missing or not in its format."""


@dataclass(frozen=True)
class NamesByResult:
    """Names of tests by result."""

    passed: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)

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
    for event in _read_objects(text):
        action, package, test = event.get("Action"), event.get("Package"), event.get("Test")
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
    return names


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
    lists = {"passed": names.passed, "failed": names.failed}
    for file in _read_document(text).get("testResults", []):
        tests, path = file.get("assertionResults", []), _tail(file.get("name", ""))
        for test in tests:
            name = f"{path} {test.get('fullName', '').strip()}"
            lists.get(test.get("status"), names.skipped).append(name)
        if file.get("status") == "failed" and not any(t.get("status") == "failed" for t in tests):
            names.errors.append(path)
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

    def names(kind: str) -> list[str]:
        return [
            f"{_tail(t.get('file') or '')} {t.get('fullTitle')}" for t in document.get(kind, [])
        ]

    return NamesByResult(names("passes"), names("failures"), [], names("pending"))


_TAP = re.compile(
    r"^(?P<indent> *)(?P<status>ok|not ok) \d+(?: -)? (?P<name>.*?)"
    r"(?P<directive> # (?:SKIP|TODO)\b.*)?$",
    re.IGNORECASE,
)
_TAP_PLAN = re.compile(r"^1\.\.(\d+)", re.MULTILINE)


def _parse_tap(text: str) -> NamesByResult:
    """Return the tests of a TAP stream. A test with subtests is named like its subtests."""
    if not _TAP_PLAN.search(text):
        raise Unreadable("the output has no TAP plan")
    names, inner = NamesByResult(), dict[int, list[tuple[str, str, bool]]]()
    for line in text.splitlines():
        if not (test := _TAP.match(line)):
            continue
        depth = len(test["indent"]) // 4
        below = inner.pop(depth + 1, [])
        name, skipped = test["name"].strip(), test["directive"] is not None
        tests = [(f"{name} > {subtest}", status, skip) for subtest, status, skip in below]
        failed_inside = any(status == "not ok" for _, status, _ in tests)
        if not tests or (test["status"] == "not ok" and not failed_inside):
            tests.append((name, test["status"], skipped))
        inner.setdefault(depth, []).extend(tests)
    for name, status, skipped in inner.get(0, []):
        kind = names.passed if status == "ok" else names.failed
        (names.skipped if skipped else kind).append(name)
    return names


def _read_objects(text: str) -> Iterator[dict[str, Any]]:
    """Yield the JSON objects of a text that has one in some of its lines."""
    for line in text.splitlines():
        if line.startswith("{"):
            try:
                yield json.loads(line)
            except ValueError:
                continue


def _read_document(text: str, *, is_last: bool = True) -> dict[str, Any]:
    """Return the JSON object in a text. `is_last` is False if other text may follow it."""
    try:
        document = json.loads(text) if is_last else json.JSONDecoder().raw_decode(text)[0]
    except ValueError:
        raise Unreadable("the runner wrote no JSON report") from None
    if not isinstance(document, dict):
        raise Unreadable("the runner's report is not a JSON object")
    return document


_PARSERS: Mapping[Format, Callable[[str], NamesByResult]] = {
    "unittest": _parse_unittest,
    "go": _parse_go,
    "cargo": _parse_cargo,
    "jest": _parse_jest,
    "mocha": _parse_mocha,
    "tap": _parse_tap,
}


def parse(kind: Format, text: str) -> NamesByResult:
    """Return the tests in a runner's results.

    Raises:
        Unreadable: the text does not have this format.
    """
    return _PARSERS[kind](text)
