"""The anchor test of a simulated author in Go and in JavaScript."""

import json
from pathlib import PurePosixPath
from typing import Literal

from agent.models.simulated.reference import Language

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
