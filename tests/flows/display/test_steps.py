"""Steps as text: one line each, or complete with real line breaks."""

import json
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from rich.cells import cell_len

from agent.models.protocol import ModelReply, Usage
from agent.session.steps import (
    ActionResult,
    CutOff,
    Result,
    Step,
    StepKind,
)
from agent.workspaces import CommandResult
from flows.display import steps
from reports.values import in_full, in_line

WIDE = 100_000

PATCH = "diff --git a/x b/x\n+one\n+two\n"


def step(kind: StepKind, request: dict[str, Any], result: Result) -> Step:
    at = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
    return Step("step-2/candidate-1", 3, kind, request, "d", result, at, 1.25)


def reply(message: dict[str, Any], cost_usd: float | None = 0.0125) -> ModelReply:
    usage = Usage(input_tokens=12_345, output_tokens=67, cost_usd=cost_usd)
    return ModelReply({"role": "assistant", **message}, usage, "provider", "m")


def command(exit_code: int, output: str, *, timed_out: bool = False) -> CommandResult:
    return CommandResult(exit_code, output, 1, truncated=False, timed_out=timed_out, duration_s=1)


def called(name: str, arguments: Any) -> dict[str, Any]:
    function = {"name": name, "arguments": json.dumps(arguments)}
    return {"content": "I look.", "tool_calls": [{"function": function}]}


TESTS = {
    "command": "pytest",
    "exit_code": 1,
    "passed": ["a", "b"],
    "failed": ["c"],
    "errors": [],
    "output": "F..\n1 failed",
}
TOOL = {
    "ok": True,
    "exit_code": None,
    "changed": ["x"],
    "put_back": [],
    "tests": None,
    "artifact": "",
    "output": "done\nwell",
}

HEARD = [
    {"id": "1", "kind": "say", "text": "use\ngit", "sender": "ann", "n": 1},
    {"id": "2", "kind": "approve", "text": "", "sender": "bob", "n": 2},
]

CASES = {
    "tool call": (
        step(
            "model", {"role": "implementer", "messages": []}, reply(called("edit", {"new": PATCH}))
        ),
        "implementer edit diff --git a/x b/x … (+2 lines)  12.3k+67 tok  $0.0125  1.2 s",
        "  I look.\n  edit:\n    new:\n      diff --git a/x b/x\n      +one\n      +two",
    ),
    "answer without tools": (
        step("model", {"messages": []}, reply({"content": json.dumps({"plan": PATCH})}, None)),
        "model   plan=diff --git a/x b/x … (+2 lines)  12.3k+67 tok  cost unknown  1.2 s",
        "  plan:\n    diff --git a/x b/x\n    +one\n    +two",
    ),
    "fenced answer": (
        step("model", {}, reply({"content": f"So:\n```json\n{json.dumps({'a': PATCH})}\n```"})),
        "model   So: … (+3 lines)  12.3k+67 tok  $0.0125  1.2 s",
        "  So:\n  a:\n    diff --git a/x b/x\n    +one\n    +two",
    ),
    "empty reply": (
        step("model", {}, replace(reply({"content": " "}), finish_reason="length")),
        "model   (empty)  cut off  12.3k+67 tok  $0.0125  1.2 s",
        "",
    ),
    "command": (
        step("command", {"command": "cat <<E\nE"}, command(2, "no\nway\n")),
        "command cat <<E … (+1 line)  exit 2  1.2 s",
        "$ cat <<E\n  E\n  no\n  way",
    ),
    "timeout": (
        step("command", {"command": "sleep 9"}, command(124, "", timed_out=True)),
        "command sleep 9  timed out  1.2 s",
        "$ sleep 9",
    ),
    "tests": (
        step("action", {"action": "tests", "paths": ["x", "y"]}, ActionResult(TESTS)),
        "tests   paths=x, y  2 passed, 1 failed, exit 1  1.2 s",
        "$ tests:\n    paths:\n      - x\n      - y\n  F..\n  1 failed",
    ),
    "tool": (
        step(
            "action",
            {"action": "tool", "tool": "apply_patch", "arguments": {"patch": PATCH}},
            ActionResult(TOOL),
        ),
        "tool    apply_patch diff --git a/x b/x … (+2 lines)  changed x  1.2 s",
        "$ apply_patch:\n    patch:\n      diff --git a/x b/x\n      +one\n      +two\n"
        "  done\n  well\n  changed:\n    - x",
    ),
    "look around": (
        step(
            "action",
            {"action": "look around", "map_tokens": 4000},
            ActionResult({"map": "src:\n  x", "test_files": ["t"]}),
        ),
        "look around map_tokens=4000  1 test file  1.2 s",
        "$ look around:\n    map_tokens: 4000\n  map:\n    src:\n      x\n  test_files:\n    - t",
    ),
    "inbox": (
        step("event", {"event": "inbox", "before": 2}, ActionResult(HEARD)),
        "inbox   ann says: use … (+1 line); bob approves  1.2 s",
        "  ann says: use\n  git\n  bob approves",
    ),
    "limit": (
        step("limit", {"command": "ls"}, CutOff("the attempt's time")),
        "limit   ls  cut off: the attempt's time  1.2 s",
        "$ ls",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_step_is_shown_as_a_line_and_as_a_block(name: str) -> None:
    """A step's line has time, place, name, action, result, tokens, cost and duration. Its block has
    the full text."""
    made, line, block = CASES[name]
    shown = steps.of_step(made)
    clock = made.started_at.astimezone().strftime("%H:%M:%S")
    assert steps.line(shown, WIDE) == f"{clock}  step-2/candidate-1/3 {line}"
    assert steps.block(shown) == block
    assert "\\n" not in steps.block(shown)


@pytest.mark.parametrize("width", [40, 80, 120])
@pytest.mark.parametrize("name", CASES)
def test_a_line_fits_a_terminal(name: str, width: int) -> None:
    """A line fits the terminal. From 80 columns on, it keeps the figures at its end."""
    made, full, _ = CASES[name]
    line = steps.line(steps.of_step(made), width)
    assert cell_len(line) <= width
    if width >= 80:
        assert line.endswith(full.rsplit("  ", 1)[1])


@pytest.mark.parametrize(
    ("value", "line", "text"),
    [
        (None, "", ""),
        ("a\n", "a", "a"),
        ({"a": 1, "b": [], "c": None, "d": True}, "a=1 d=true", "a: 1\nd: true"),
        (
            [{"a": "x\ny", "b": "z"}],
            "(a=x … (+1 line) b=z)",
            "- a:\n    x\n    y\n  b: z",
        ),
    ],
)
def test_json_is_shown_as_text(value: Any, line: str, text: str) -> None:
    """JSON values are shown as text, on one line or in full, without empty values."""
    assert (in_line(value), in_full(value)) == (line, text)


def test_a_model_call_shows_its_new_messages() -> None:
    """The block of a call has the prompts, each with the role that says it, before the reply."""
    messages = [
        {"role": "system", "content": "Find\nthe cause."},
        {"role": "assistant", "content": "An earlier reply."},
        {"role": "tool", "content": "a.py"},
    ]
    shown = steps.of_step(step("model", {"messages": messages}, reply({"content": "Done."})))
    assert steps.block(shown) == "\n".join(
        ["  [system]", "  Find", "  the cause.", "  [tool]", "  a.py", "  Done."]
    )


def test_the_tree_marks_what_the_agent_has_chosen() -> None:
    """Of each step of the plan the candidate, or of all judged changes the submitted one."""

    def at(*scopes: str) -> list[steps.StepView]:
        call = step("command", {"command": "ls"}, command(0, ""))
        return [steps.of_step(replace(call, scope=scope)) for scope in scopes]

    made = at("work/step-2/candidate-1/review", "work/step-2/candidate-0", "work/step-10")
    candidates = [{"number": 0, "status": "accepted"}, {"number": 1, "status": "rejected"}]
    report = {"steps": [{"chosen": 0, "candidates": candidates}]}
    assert steps.mark_chosen(report, made) == {"work/step-2/candidate-0": "chosen, accepted"}
    judged = at("work/approach-0/judge-0/fresh", "work/approach-0/judge-1", "work/approach-1/solve")
    changes = [
        {"chosen": False, "closed_gates": []},
        {"chosen": True, "closed_gates": ["regression"]},
    ]
    marks = {"work/approach-0/judge-1": "chosen, closed gates: regression"}
    assert steps.mark_chosen({"changes": changes}, judged) == marks
    assert steps.mark_chosen({}, judged) == {}
