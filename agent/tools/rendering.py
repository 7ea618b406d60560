"""Render tool results for prompts: short, errors first."""

import re

from agent.shortening import head_and_tail
from agent.tools.protection import explain
from agent.tools.tool import TestRun, ToolResult

MAX_CHARS = 10_000
"""Maximum length of one result in a prompt."""

_NAMES_SHOWN = 30
_FRAMES_SHOWN = 3
_ASSERTION_LINES_SHOWN = 8
_ERROR_LINES_SHOWN = 20
_LINE_CHARS = 300

# pytest's own markers: a rule with the test's name above its report, `E` before the expected value,
# `path:line: Error` at every frame.
_REPORT = re.compile(r"^_{3,} (?P<name>.+?) _{3,}$", re.MULTILINE)
_RULE = re.compile(r"^={3,} .* ={3,}$", re.MULTILINE)
_ASSERTION = re.compile(r"^E {2,}.*$", re.MULTILINE)
_FRAME = re.compile(r"^\S.*?:\d+: .*$", re.MULTILINE)
_ERROR = re.compile(r"(?:Error|Exception|Warning): |\b(?:error|fatal|failed|FAILED)\b")


def render(result: ToolResult, max_chars: int = MAX_CHARS) -> str:
    """Return a result as text of about `max_chars`.

    The text has the exit code, the output, the path of the full output, and the restored files. If
    the output does not fit, errors come first, then head and tail of the rest.
    """
    restored = explain(result.put_back) if result.put_back else ""
    ended = "" if result.exit_code is None else f"exit code {result.exit_code}"
    room = max(0, max_chars - len(restored))
    if result.tests is not None:
        body = render_tests(result.tests, room)
    elif result.ok:
        body = head_and_tail(result.output, room)
    else:
        body = errors_first(result.output, room)
    whole = f"[the whole output is in {result.artifact}]" if result.artifact else ""
    parts = (ended, body.strip("\n") or "(no output)", whole, restored)
    return "\n".join(part for part in parts if part)


def render_tests(run: TestRun, max_chars: int = MAX_CHARS) -> str:
    """Return a test run as text: the whole output if it fits, else a summary.

    The summary has the failed tests, the assertions and the last frames of each, the counts, and
    the tail of the output.
    """
    if len(run.output) <= max_chars:
        return run.output
    counts = f"{len(run.failed)} failed, {len(run.errors)} errors, {len(run.passed)} passed"
    if not run.failed and not run.errors:
        return f"{counts}\n{head_and_tail(run.output, max_chars - len(counts))}"
    names = [f"FAILED {name}" for name in run.failed] + [f"ERROR {name}" for name in run.errors]
    left_out = len(names) - _NAMES_SHOWN
    if left_out > 0:
        names[_NAMES_SHOWN:] = [f"[... {left_out} more]"]
    reports = run.reports or _find_reports(run.output)
    parts = [f"\n{name}\n{_shorten_report(report)}" for name, report in reports.items()]
    failures = "\n".join([*map(_cut, names), *parts])
    head = f"{head_and_tail(failures, max_chars * 3 // 4)}\n{counts}\n"
    return head + head_and_tail(run.output, max_chars - len(head))


def _find_reports(output: str) -> dict[str, str]:
    """Return the reports with assertions in pytest's output, by the names of tests."""
    headings = list(_REPORT.finditer(output))
    ends = [*(heading.start() for heading in headings[1:]), len(output)]
    reports = {}
    for heading, end in zip(headings, ends, strict=False):
        text = _RULE.split(output[heading.end() : end], maxsplit=1)[0]
        if _ASSERTION.search(text):
            reports[heading["name"]] = text
    return reports


def _shorten_report(report: str) -> str:
    """Return the assertion lines and the last frames of a report, or else its last lines."""
    assertions, frames = _ASSERTION.findall(report), _FRAME.findall(report)
    lines = [*assertions[:_ASSERTION_LINES_SHOWN], *frames[-_FRAMES_SHOWN:]]
    return "\n".join(map(_cut, lines or report.splitlines()[-_ASSERTION_LINES_SHOWN:]))


def errors_first(output: str, max_chars: int = MAX_CHARS) -> str:
    """Return the output if it fits, else the last lines with errors, then head and tail."""
    if len(output) <= max_chars:
        return output
    lines = list(
        dict.fromkeys(line for line in map(_cut, output.splitlines()) if _ERROR.search(line))
    )
    if not lines:
        return head_and_tail(output, max_chars)
    errors = "\n".join(["lines that tell of errors:", *lines[-_ERROR_LINES_SHOWN:]])
    head = f"{head_and_tail(errors, max_chars // 2)}\nthe whole:\n"
    return head + head_and_tail(output, max_chars - len(head))


def _cut(line: str) -> str:
    return line if len(line) <= _LINE_CHARS else f"{line[:_LINE_CHARS]} [...]"
