"""Tasks in Go and in Node.js through the durable arm, with a model that is right at once or later.

The model is a server that knows the reference patch. Its wrong changes apply and are code.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from agent.models.simulated.reference import revert_command
from eval import instances
from eval.types import Instance
from tests.journeys.command_line import Terminal
from tests.journeys.test_rows_with_their_own_commands import read_verdicts
from tests.servers import openai_server as api

pytestmark = [pytest.mark.slow, pytest.mark.docker, pytest.mark.timeout(900)]

TASKS = {task.instance_id: task for task in instances.load("bundled-polyglot")}


@dataclass(frozen=True)
class Author:
    """A model that writes a test first, and then a change."""

    test: str
    content: str
    related: str
    """A test file that exists already."""
    mistakes: tuple[tuple[str, str], tuple[str, str]]
    """Replacements in the reference patch that make it wrong, each in its own way."""
    runner: str
    """The command of the repository."""

    def replies(self, task: Instance, right_at: int) -> list[api.Reply]:
        """Return the replies of a model whose change is right at that try."""
        end = [
            use("run_tests", paths=[self.test]),
            use(
                "answer",
                summary="did it",
                test=self.test,
                related_tests=[self.related],
                status="done",
                confidence="high",
            ),
        ]
        wrong = [_replace_in_added(task.patch, *mistake) for mistake in self.mistakes]
        tries = [*wrong[: right_at - 1], task.patch]
        replies = [
            use("write", path=self.test, content=self.content),
            use("apply_patch", patch=tries[0]),
            *end,
        ]
        for before, after in pairwise(tries):
            undo = use("run_command", command=revert_command(before))
            replies += [undo, use("apply_patch", patch=after), *end]
        return replies


def use(name: str, **arguments: Any) -> api.Reply:
    """Return a reply that calls a tool."""
    call = {"name": name, "arguments": json.dumps(arguments)}
    calls = [{"id": "call_test", "type": "function", "function": call}]
    message = {"role": "assistant", "content": "Next.", "tool_calls": calls}
    return api.completion(message, finish_reason="tool_calls")


def _replace_in_added(patch: str, old: str, new: str) -> str:
    lines = patch.split("\n")
    return "\n".join(line.replace(old, new) if line.startswith("+") else line for line in lines)


AUTHORS = {
    "durabench__byteflow-1": Author(
        "decimals_test.go",
        """\
package byteflow

import "testing"

func TestTwoDecimals(t *testing.T) {
	expectSize(t, "1.25 kB", 1250)
	expectSize(t, "2.05 kB", 2050)
}
""",
        "size_test.go",
        (("divisor *= 10", "divisor *= 9"), ("part*10", "part*8")),
        "go test -json {paths}",
    ),
    "durabench__routelet-1": Author(
        "test/points.test.js",
        """\
'use strict';

const test = require('node:test');
const assert = require('node:assert');
const { compile } = require('../src/pattern.js');

test('a point is a point', () => {
  const pattern = compile('/feed.:format');
  assert.strictEqual(pattern.match('/feedxxml'), null);
  assert.deepStrictEqual(pattern.match('/feed.xml'), { format: 'xml' });
});
""",
        "test/router.test.js",
        (("'\\\\$&'", "'$&'"), ("slice(end, found.index)", "slice(end, end)")),
        "node --test --test-reporter=tap --test-reporter-destination=$durabench_report {paths}",
    ),
}
RIGHT_AT = {"first": 1, "third": 3}


def answer(body: dict[str, Any]) -> api.Reply:
    """Reply as the author of the task, or as the one who rules on a closed gate."""
    tools = {tool["function"]["name"] for tool in body["tools"]}
    if "write" not in tools:
        return use("answer", reasons=["the task says so"], cause="code")
    text = json.dumps(body["messages"][:3])
    [task] = [task for task in TASKS.values() if json.dumps(task.problem_statement)[1:-1] in text]
    right_at = RIGHT_AT[body["model"].rpartition("/")[2]]
    return api.by_turn(AUTHORS[task.instance_id].replies(task, right_at))(body)


def list_changed_lines(patch: str) -> Sequence[str]:
    """Return the lines that a patch adds and removes."""
    return [line for line in patch.splitlines() if line.startswith(("+", "-"))]


@pytest.mark.journey("run")
def test_the_right_patch_is_submitted(tmp_path: Path) -> None:
    """Each wrong try fails the new test, run as the repository runs its tests."""
    terminal = Terminal(tmp_path, {"OPENAI_API_KEY": "none"}, limit_s=800)
    with api.OpenAIServer(answer) as server:
        models = {name: {"name": f"openai/{name}", "api_base": server.url} for name in RIGHT_AT}
        experiment = {
            "name": "languages",
            "dataset": "bundled-polyglot",
            "select": {"ids": [*AUTHORS]},
            "arms": [{"name": n, "agent": "durable", "model": m} for n, m in models.items()],
            "environment": "docker",
        }
        terminal.durabench("run", terminal.write("languages.yaml", experiment))
    verdicts = read_verdicts(terminal, "languages")
    assert verdicts == {(name, task): "resolved" for name in RIGHT_AT for task in AUTHORS}
    attempts = terminal.rows("attempts")
    assert len(attempts) == len(verdicts)
    patches = {row["attempt_id"]: row["model_patch"] for row in terminal.rows("predictions")}
    for attempt in attempts:
        task, report = attempt["instance_id"], json.loads(attempt["report"])
        right_at = RIGHT_AT[attempt["model"].rpartition("/")[2]]
        assert report["test_runner"]["command"] == AUTHORS[task].runner
        assert [report["agent_verdict"], report["reproduced"]] == ["accepted", True]
        tries = [change["closed_gates"] == [] for change in report["changes"]]
        assert tries == [False] * (right_at - 1) + [True]
        expected = list_changed_lines(TASKS[task].patch)
        assert list_changed_lines(patches[attempt["attempt_id"]]) == expected
