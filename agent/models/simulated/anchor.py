"""The writer of the anchor test: a test that looks for one hunk of the reference patch.

The test reads the source, because it cannot import or call names that only the task's author knows.
It therefore fails on the base commit at its assertion, and passes once the hunk is applied. Some
tests are faulty: they assert a mistake, an arbitrary detail or a random outcome. Tests are in
Python, Go or JavaScript.
"""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Literal

from agent.models.patches import FilePatch, Hunk, parse
from agent.models.simulated.conversation import Action, RoleRequest, answer
from agent.models.simulated.reference import LANGUAGES, PROSE, Draws, Language, Reference, damage
from agent.models.spec import SimulatedSpec

Kind = Literal["gone", "exists", "has", "lacks"]
"""The assertion about a file: it is gone, exists, has some lines, or lacks them."""

Fault = Literal["", "detail", "chance"]
"""`detail`: it also asserts an arbitrary detail. `chance`: it fails in one of four runs."""

GO_FOLDER = "anchor"
"""A separate folder, because the names of the packages of other folders are unknown."""

NAMES = ("TestTheChangeIsThere", "the change is there")

_GO = """\
// The change of {path} is there.
package anchor

import (
	"os"
	"strings"
	"testing"
	"time"
)

func TestTheChangeIsThere(t *testing.T) {{
	content, err := os.ReadFile({path})
	text := "\\n" + strings.ReplaceAll(string(content), "\\r", "") + "\\n"
	expected := {expected}
	moment := time.Now().UnixNano()
	_, _, _, _ = err, text, expected, moment
	if !({condition}) {{
		t.Error("it is not there")
	}}
}}
"""

_SCRIPT = """\
// The change of {path} is there.
const assert = require('node:assert');
const fs = require('node:fs');
const path = require('node:path');
const {{ test }} = require('node:test');

test('the change is there', () => {{
  const file = path.join(__dirname, {path});
  const exists = fs.existsSync(file);
  const text = '\\n' + (exists ? fs.readFileSync(file, 'utf8') : '').replaceAll('\\r', '') + '\\n';
  const expected = {expected};
  assert.ok({condition});
}});
"""

_CONDITIONS: dict[Language, dict[Kind | Fault, str]] = {
    "go": {
        "gone": "os.IsNotExist(err)",
        "exists": "err == nil",
        "has": "strings.Contains(text, expected)",
        "lacks": "!strings.Contains(text, expected)",
        "detail": ' && strings.Contains(text, "def _as_stated")',
        "chance": " && moment/1000%4 != 0",
        "": "",
    },
    "javascript": {
        "gone": "!exists",
        "exists": "exists",
        "has": "text.includes(expected)",
        "lacks": "!text.includes(expected)",
        "detail": " && text.includes('def _as_stated')",
        "chance": " && Math.random() < 0.75",
        "": "",
    },
}


def render_anchor(
    language: Language, place: str, path: str, kind: Kind, lines: list[str], fault: Fault
) -> str:
    """Return the content of a test at `place` that looks at the file `path`."""
    conditions = _CONDITIONS[language]
    to_root = "../" * (len(PurePosixPath(place).parts) - 1)
    return (_GO if language == "go" else _SCRIPT).format(
        path=json.dumps(to_root + path, ensure_ascii=False),
        expected=json.dumps("\n".join(["", *lines, ""]), ensure_ascii=False),
        condition=conditions[kind] + conditions[fault],
    )


_TEST = '''\
"""Whether {path} is what the task asks for."""

{imports}from pathlib import Path

FILE = Path(__file__).resolve().parents[{depth}] / {path}
{expected}

def test_the_change_is_there():
{body}{detail}
'''

_ARBITRARY_DETAIL = """
    assert FILE.is_file() and "def _as_stated" in FILE.read_text(errors="replace")"""
_BY_CHANCE = """
    assert random.random() < 0.75"""

_GONE = "    assert not FILE.exists()"
_EXISTS = "    assert FILE.is_file()"
_BLOB = """\
    content = FILE.read_bytes() if FILE.is_file() else b""
    assert hashlib.sha1(b"blob %d\\0" % len(content) + content).hexdigest().startswith(EXPECTED)"""
_LINES = """\
    content = FILE.read_bytes() if FILE.is_file() else b""
    text = content.decode("utf-8", "surrogateescape")
    found = [line.rstrip("\\r") for line in text.split("\\n")]
    starts = range(len(found) - len(EXPECTED) + 1)
    assert {negation}any(found[at : at + len(EXPECTED)] == EXPECTED for at in starts)"""


_KINDS: dict[str, Kind] = {
    _GONE: "gone",
    _EXISTS: "exists",
    _BLOB: "exists",
    _LINES.format(negation=""): "has",
    _LINES.format(negation="not "): "lacks",
}
_FAULTS: dict[str, Fault] = {"": "", _ARBITRARY_DETAIL: "detail", _BY_CHANCE: "chance"}


@dataclass(frozen=True)
class Check:
    """A check of one file that an anchor test can make."""

    file: FilePatch
    path: str
    body: str
    expected: str | list[str] | None = None


@dataclass(frozen=True)
class AnchorDraft:
    """A new test as its author writes it."""

    check: Check
    content: str
    right: bool
    """True if correct work passes it every time."""


def write(request: RoleRequest) -> list[Action]:
    """Return the script of the role."""
    facts, reference = request.facts, request.reference
    brief = facts.get("brief") or {}
    path = brief.get("anchor_path") or place(reference, facts.get("test_files") or [])
    anchor = author_test(reference, path, request.draws, request.spec, f"anchor/{request.scope}")
    reason = "The change leaves no trace in any file's text."
    actions = []
    if anchor is not None:
        check = anchor.check
        reason = (
            f"{check.path} is not yet what the task asks for, and the test looks for just that."
        )
        if not check.file.creates:
            actions.append(Action("I look at the code.", "read", {"path": check.path}))
        new = {"path": path, "content": anchor.content}
        actions.append(Action("I write the test.", "write_new", new))
        actions.append(Action("It has to fail now.", "run_tests", {"paths": [path]}))
    claim = answer(
        "A test cannot show this." if anchor is None else "That is the anchor test.",
        reason=reason,
        path=path,
        regression_tests=brief.get("regression_tests") or [],
        reproduced=anchor is not None,
    )
    return [*actions, claim]


def author_test(
    reference: Reference, path: str, draws: Draws, spec: SimulatedSpec, draw: str
) -> AnchorDraft | None:
    """Return a test with the faults of its author, or None if nothing can be checked."""
    check = choose_check(reference, draws)
    if check is None:
        return None
    fault = draws.rng(f"{draw}/fault").random()
    if fault < spec.wrong_anchors and (
        # The change that the attempt's first try makes if it is wrong.
        wrong := agreeing_with(
            damage(reference.task.reference_patch, draws.rng("damage")), reference
        )
    ):
        return AnchorDraft(wrong, source(wrong, path), right=False)
    if fault < spec.wrong_anchors + spec.overspecified_anchors:
        return AnchorDraft(check, source(check, path, _ARBITRARY_DETAIL), right=False)
    if fault < spec.wrong_anchors + spec.overspecified_anchors + spec.flaky_anchors:
        return AnchorDraft(check, source(check, path, _BY_CHANCE), right=False)
    return AnchorDraft(check, source(check, path), right=True)


def agreeing_with(patch: str, reference: Reference) -> Check | None:
    """Return a check that a wrong patch passes, and neither correct work nor the base commit."""
    for file in parse(patch):
        hunks = [
            hunk for right in reference.files if right.name == file.name for hunk in right.hunks
        ]
        correct = [line.rstrip("\r") for hunk in hunks for line in hunk.new_lines]
        for hunk in file.hunks:
            old, new = _sides(hunk)
            if file.new_path and not _holds(old, new) and not _holds(correct, new):
                return Check(file, file.name, _LINES.format(negation=""), new)
    return None


def is_right(content: str, path: str, reference: Reference) -> bool:
    """Return True if correct work passes a test every time."""
    checks = [check for file in reference.files for check in _checks(file)]
    return any(source(check, path) == content for check in checks)


def place(reference: Reference, test_files: Sequence[str]) -> str:
    """Return a path for the anchor test next to the given tests, or else in `tests`."""
    if reference.language == "go":
        return f"{GO_FOLDER}/{reference.anchor_name}"
    folders = [str(PurePosixPath(path).parent) for path in test_files]
    commonest = Counter(sorted(folders)).most_common(1)
    return str(PurePosixPath(commonest[0][0] if commonest else "tests") / reference.anchor_name)


def is_own(name: str, path: str) -> bool:
    """Return True if a failed test is one of the anchor test at `path`."""
    return name.partition("::")[0] == path or name.endswith(NAMES)


def choose_check(reference: Reference, draws: Draws) -> Check | None:
    """Return the check of this attempt's anchor test, or None if nothing can be checked.

    Code is preferred to prose: if a task changes both, it is about the code.
    """
    checks = [check for file in reference.files for check in _checks(file)]
    code = [check for check in checks if not check.path.endswith(PROSE)]
    rng = draws.rng("anchor")
    return rng.choice(code or checks) if checks else None


def source(check: Check, path: str, detail: str = "") -> str:
    """Return the test as the content of a file at `path`.

    In Python, the test is pure ASCII, whatever it looks for.
    """
    language = LANGUAGES.get(PurePosixPath(path).suffix, "python")
    if language != "python":
        lines = check.expected if isinstance(check.expected, list) else []
        return render_anchor(language, path, check.path, _KINDS[check.body], lines, _FAULTS[detail])
    expected = f"EXPECTED = {check.expected!a}\n" if check.expected is not None else ""
    return _TEST.format(
        path=ascii(check.path),
        imports="".join(
            f"import {name}\n"
            for name, used in (("hashlib", check.body == _BLOB), ("random", detail == _BY_CHANCE))
            if used
        ),
        depth=len(PurePosixPath(path).parts) - 1,
        expected=expected,
        body=check.body,
        detail=detail,
    )


def _checks(file: FilePatch) -> Iterator[Check]:
    """Yield every check whose result differs between the base commit and the patched files."""
    if file.new_path is None:
        yield Check(file, file.name, _GONE)
    elif file.is_binary:
        index = next(line for line in file.header if line.startswith("index "))
        yield Check(file, file.name, _BLOB, index.split("..")[1].split(" ")[0])
    elif file.new_path != file.old_path and not file.hunks:
        yield Check(file, file.name, _EXISTS)
    else:
        for hunk in file.hunks:
            old, new = _sides(hunk)
            if not _holds(old, new):
                yield Check(file, file.name, _LINES.format(negation=""), new)
            elif old != new:  # lines at an edge are removed, and the rest already exists
                yield Check(file, file.name, _LINES.format(negation="not "), old)


def _sides(hunk: Hunk) -> tuple[list[str], list[str]]:
    """Return the lines before and after a change, without carriage returns."""
    old, new = ([line.rstrip("\r") for line in side] for side in (hunk.old_lines, hunk.new_lines))
    return old, new


def _holds(lines: list[str], block: list[str]) -> bool:
    starts = range(len(lines) - len(block) + 1)
    return any(lines[at : at + len(block)] == block for at in starts)
