"""Parsers of test results in the formats of `suites.Format`."""

import json
import re
from collections.abc import Iterator
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


def parse(kind: Format, text: str) -> NamesByResult:
    """Return the tests in a runner's results.

    Raises:
        Unreadable: there are no results in this format.
    """
    match kind:
        case "unittest":
            return _unittest(text)
        case "go":
            return _go(text)
        case "cargo":
            return _cargo(text)
        case "jest":
            return _jest(text)
        case "mocha":
            return _mocha(text)
        case "tap":
            return _tap(text)
        case _:
            raise ValueError(f"{kind} names no tests")


_UNITTEST = re.compile(
    r"^(?P<name>\w+ \([\w.]+\)).*?\.\.\. (?:.*?)(?P<status>ok|FAIL|ERROR|skipped|expected failure"
    r"|unexpected success)\b",
    re.MULTILINE | re.DOTALL,
)
_UNITTEST_END = re.compile(r"^Ran (?P<count>\d+) tests? in ", re.MULTILINE)
_UNITTEST_ERROR = re.compile(r"^ERROR: (?P<name>\S+ \([\w.]+\))", re.MULTILINE)


def _unittest(text: str) -> NamesByResult:
    if not _UNITTEST_END.search(text):
        raise Unreadable("the output has no `Ran N tests`")
    found = NamesByResult()
    for each in _UNITTEST.finditer(text):
        _of_unittest(found, each["status"]).append(each["name"])
    known = set(found.errors)
    found.errors.extend(
        each["name"] for each in _UNITTEST_ERROR.finditer(text) if each["name"] not in known
    )
    return found


def _of_unittest(found: NamesByResult, status: str) -> list[str]:
    match status:
        case "ok":
            return found.passed
        case "skipped" | "expected failure":
            return found.skipped
        case "ERROR":
            return found.errors
        case _:
            return found.failed


def _go(text: str) -> NamesByResult:
    found, packages = NamesByResult(), dict[str, str]()
    for event in _objects(text):
        action, package, test = event.get("Action"), event.get("Package"), event.get("Test")
        if test and action in ("pass", "fail", "skip"):
            kind = {"pass": found.passed, "fail": found.failed, "skip": found.skipped}[action]
            kind.append(f"{package}.{test}")
        elif package and action in ("pass", "fail", "skip"):
            packages[package] = action
        elif action == "build-fail":
            packages[str(event.get("ImportPath")).partition(" ")[0]] = "fail"
    if not packages:
        raise Unreadable("`go test -json` reported no package")
    # A package that cannot be built, or whose process died, fails without a failed test.
    with_failures = {name.rpartition(".")[0] for name in found.failed}
    dead = [p for p, end in packages.items() if end == "fail" and p not in with_failures]
    found.errors.extend(dead)
    return found


_CARGO_BINARY = re.compile(r"^\s*(?:Running (?:unittests )?(?P<file>\S+)|Doc-tests (?P<doc>\S+))")
_CARGO_TEST = re.compile(r"^test (?P<name>.+?) \.\.\. (?P<status>ok|FAILED|ignored)")
_CARGO_NOT_BUILT = re.compile(r"^error(?:\[E\d+\])?: ", re.MULTILINE)


def _cargo(text: str) -> NamesByResult:
    found, binary, ends = NamesByResult(), "", 0
    for line in text.splitlines():
        if begun := _CARGO_BINARY.match(line):
            binary = begun["file"] or f"doc {begun['doc']}"
        elif test := _CARGO_TEST.match(line):
            kinds = {"ok": found.passed, "FAILED": found.failed, "ignored": found.skipped}
            kinds[test["status"]].append(
                f"{binary}::{test['name'].removesuffix(' - should panic')}"
            )
        ends += line.startswith("test result: ")
    if not ends:
        built = "" if _CARGO_NOT_BUILT.search(text) is None else ": it could not be built"
        raise Unreadable(f"cargo ran no test{built}")
    return found


def _jest(text: str) -> NamesByResult:
    found = NamesByResult()
    for file in _document(text).get("testResults", []):
        tests = file.get("assertionResults", [])
        for test in tests:
            name = f"{_tail(file.get('name', ''))} {test.get('fullName', '').strip()}"
            match test.get("status"):
                case "passed":
                    found.passed.append(name)
                case "failed":
                    found.failed.append(name)
                case _:
                    found.skipped.append(name)
        if file.get("status") == "failed" and not any(t.get("status") == "failed" for t in tests):
            found.errors.append(_tail(file.get("name", "")))
    return found


def _tail(path: str) -> str:
    """Return a path without the folder of the workspace, which differs between workspaces."""
    for root in ("/testbed/", "/repo/"):
        if root in path:
            return path.partition(root)[2]
    return path


_MOCHA_BEGINS = '{\n  "stats": {'
"""The beginning of mocha's report, behind what tests printed."""


def _mocha(text: str) -> NamesByResult:
    document = _document(text[max(text.rfind(_MOCHA_BEGINS), 0) :], is_last=False)

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


def _tap(text: str) -> NamesByResult:
    """Return the tests of a TAP stream. A test with subtests is named as its subtests are."""
    if not _TAP_PLAN.search(text):
        raise Unreadable("the output has no TAP plan")
    found, inner = NamesByResult(), dict[int, list[tuple[str, str, bool]]]()
    for line in text.splitlines():
        if not (test := _TAP.match(line)):
            continue
        depth = len(test["indent"]) // 4
        below = inner.pop(depth + 1, [])
        name, skipped = test["name"].strip(), test["directive"] is not None
        mine = [(f"{name} > {each}", status, skip) for each, status, skip in below]
        failed_inside = any(status == "not ok" for _, status, _ in mine)
        if not mine or (test["status"] == "not ok" and not failed_inside):
            mine.append((name, test["status"], skipped))
        inner.setdefault(depth, []).extend(mine)
    for name, status, skipped in inner.get(0, []):
        kind = found.passed if status == "ok" else found.failed
        (found.skipped if skipped else kind).append(name)
    return found


def _objects(text: str) -> Iterator[dict[str, Any]]:
    """Yield the JSON objects of a text that has one in some of its lines."""
    for line in text.splitlines():
        if line.startswith("{"):
            try:
                yield json.loads(line)
            except ValueError:
                continue


def _document(text: str, *, is_last: bool = True) -> dict[str, Any]:
    """Return the JSON object in a text. `is_last` is False if other text may follow it."""
    try:
        document = json.loads(text) if is_last else json.JSONDecoder().raw_decode(text)[0]
    except ValueError:
        raise Unreadable("the runner wrote no JSON report") from None
    if not isinstance(document, dict):
        raise Unreadable("the runner's report is no JSON object")
    return document
