"""The simulated solver works in one conversation and repairs what is rejected."""

import asyncio
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from agent.arms.durable.answers import Work
from agent.models.protocol import Message, ModelRequest
from agent.models.simulated import SimulatedModel
from tests.agent.models.patch_cases import KINDS, Case
from tests.agent.models.role_talk import TOOLS, Call, opening
from tests.agent.models.simulations import Tree, simulated
from tests.agent.models.test_simulated_anchor import passes

FACTS: dict[str, Any] = {"task": "It is broken.", "earlier_test": None, "plan": None}
EXISTING = "tests/unit/test_old.py"
REGRESSION = f"- {EXISTING}::test_old fails and did not before"


class Working:
    """A conversation with the solver on a new tree."""

    def __init__(self, case: Case, folder: Path, **spec: Any) -> None:
        self.tree = Tree(case, folder / "repo")
        self.reference = self.tree.reference_diff()
        self.model: SimulatedModel = simulated(self.tree.patch, **spec)
        self.replies: list[list[Call]] = []
        self._messages: list[Message] = []
        self._facts: dict[str, Any] = FACTS

    def until_answer(self, told: str = "", *, facts: Any = None, native: bool = True) -> Work:
        """Continue the conversation, after the rejection `told` if any, until an answer."""
        self._facts = {**FACTS, **(facts or {})}
        if not self._messages:
            self._messages = opening(self._facts)
        if told:
            self._messages.append({"role": "user", "content": told})
        for _ in range(60):
            tools = TOOLS if native else []
            number = len(self.replies)
            request = ModelRequest(
                list(self._messages), tools, number, role="solver", facts=self._facts
            )
            message = asyncio.run(self.model.complete(request)).message
            self._messages.append(message)
            calls = _calls(message)
            self.replies.append(calls)
            if calls[-1].tool == "answer":
                return Work.model_validate(calls[-1].arguments)
            for call in calls:
                role = {"role": "tool"} if native else {"role": "user"}
                self._messages.append({**role, "content": self.act(call)})
        raise AssertionError("the solver never answered")

    def act(self, call: Call) -> str:
        if call.tool == "run_command":
            command = call.arguments["command"]
            answer = subprocess.run(
                ["bash", "-c", command], cwd=self.tree.root, capture_output=True
            )
            assert answer.returncode == 0, answer.stderr
            lists = "*test*" in command
            return f"exit code 0\n{EXISTING if lists else answer.stdout.decode(errors='replace')}"
        if call.tool == "run_tests":
            return self.run_tests(call.arguments["paths"])
        return self.tree.act(call)

    def run_tests(self, paths: list[str]) -> str:
        """Run the existing tests. Return a summary like pytest's."""
        failed = [path for path in paths if path != EXISTING and not passes(self.tree.root / path)]
        lines = [f"FAILED {path}::test_the_change_is_there - AssertionError" for path in failed]
        return "\n".join([f"exit code {len(failed)}", *lines])

    def is_right(self, work: Work) -> bool:
        """Return True if the tree has the reference change besides the new test."""
        test = self.tree.root / (work.test or "absent")
        content = test.read_bytes() if work.test else b""
        test.unlink(missing_ok=not work.test)
        is_right = self.tree.diff() == self.reference
        if work.test:
            test.parent.mkdir(parents=True, exist_ok=True)
            test.write_bytes(content)
        return is_right


def _calls(message: Message) -> list[Call]:
    if "tool_calls" in message:
        asked = [call["function"] for call in message["tool_calls"]]
        return [Call(each["name"], json.loads(each["arguments"])) for each in asked]
    block = message["content"].split("```json\n")[1].split("\n```")[0]
    asked = json.loads(block)
    return [Call(asked["tool"], asked["arguments"])]


def rejection(work: Work, *more: str) -> str:
    """Return the message that the new test fails."""
    line = f"- the new test {work.test} fails with the change"
    return "\n".join(["The checks on a fresh copy failed:", line, *more])


@pytest.mark.parametrize("case", KINDS)
def test_a_right_solver_tests_first_and_makes_the_reference_change(
    case: Case, tmp_path: Path
) -> None:
    """The solver writes its test first, next to existing ones. The test passes after the change."""
    for native in (True, False):
        work = Working(case, tmp_path / str(native))
        answer = work.until_answer(native=native)
        order = [call.tool for reply in work.replies for call in reply]
        assert order.index("write") < order.index("run_tests") < order.index("apply_patch")
        assert order[-2:] == ["run_tests", "answer"]
        assert Path(answer.test).parent == Path(EXISTING).parent
        assert answer.related_tests == [EXISTING]
        assert work.is_right(answer)
