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
from tests.agent.models.patch_cases import CASES, KINDS, Case
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

    def calls_of(self, tool: str) -> list[dict[str, Any]]:
        return [call.arguments for reply in self.replies for call in reply if call.tool == tool]

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


@pytest.mark.parametrize("case", KINDS)
def test_a_rejected_change_is_drawn_again(case: Case, tmp_path: Path) -> None:
    """A rejected change of any kind is reverted and replaced by another try."""
    patch = Tree(case, tmp_path / "first").patch
    seeds = (n for n in range(100) if not simulated(patch, seed=n, skill=0.5).right)
    work = Working(case, tmp_path, skill=0.5, seed=next(seeds))
    answer = work.until_answer()
    for _ in range(30):
        if work.is_right(answer):
            break
        answer = work.until_answer(rejection(answer, REGRESSION))
    assert work.is_right(answer)
    assert work.calls_of("apply_patch")[-1]["patch"] == patch


def test_a_correlated_mistake_is_made_again(tmp_path: Path) -> None:
    """With full correlation a rejection leads to the same change, which is not applied again."""
    work = Working(CASES[0], tmp_path, skill=0.0, correlation=1.0)
    answer = work.until_answer()
    for _ in range(3):
        answer = work.until_answer(rejection(answer))
    assert len(work.calls_of("apply_patch")) == 1
    assert not work.is_right(answer)


@pytest.mark.parametrize("insight", [1.0, 0.0])
def test_a_wrong_test_is_corrected_with_insight(tmp_path: Path, insight: float) -> None:
    """Without insight the solver keeps its failing test. It leaves the right code unchanged."""
    work = Working(CASES[0], tmp_path, overspecified_anchors=1.0, insight=insight)
    answer = work.until_answer()
    if not insight:
        answer = work.until_answer(rejection(answer))
    assert len(work.calls_of("write")) == 1 + insight
    assert passes(work.tree.root / answer.test) == bool(insight)
    assert work.is_right(answer)


def test_a_wrong_change_can_bend_its_own_test(tmp_path: Path) -> None:
    """Without insight the solver may adapt its test to the mistake, and then every test passes."""
    for seed in range(20):
        work = Working(CASES[0], tmp_path / str(seed), skill=0.0, insight=0.0, seed=seed)
        answer = work.until_answer()
        if answer.test and len(work.calls_of("write")) == 2:
            assert passes(work.tree.root / answer.test)
            assert not work.is_right(answer)
            return
    raise AssertionError("no seed had a test that saw the mistake")


def test_an_existing_test_is_named_or_the_code_changed(tmp_path: Path) -> None:
    """With insight, right code leads to a blamed test, and wrong code is changed."""
    right = Working(CASES[0], tmp_path / "right")
    right.until_answer()
    assert right.until_answer(f"Failed:\n{REGRESSION}").conflicting_tests == [
        f"{EXISTING}::test_old"
    ]
    wrong = Working(CASES[0], tmp_path / "wrong", skill=0.0, wrong_anchors=1.0)
    wrong.until_answer()
    before = len(wrong.calls_of("apply_patch"))
    assert wrong.until_answer(f"Failed:\n{REGRESSION}").conflicting_tests == []
    assert len(wrong.calls_of("apply_patch")) > before


@pytest.mark.parametrize(
    "told",
    [
        "The checks pass so far. not done yet: all. Do what remains, and answer again.",
        "Failed:\n- No test was added to the change.",
    ],
    ids=["nothing failed", "a reviewer asks for tests"],
)
def test_a_message_without_a_failure_changes_nothing(told: str, tmp_path: Path) -> None:
    """A message that asks for no repair gets the same answer again."""
    work = Working(CASES[0], tmp_path)
    answer = work.until_answer()
    assert work.until_answer(told).test == answer.test
    assert len(work.calls_of("apply_patch")) == len(work.calls_of("write")) == 1


def test_a_rejected_flaky_test_is_rewritten(tmp_path: Path) -> None:
    """A flaky test is replaced by a reliable one if the gate rejects it."""
    work = Working(CASES[0], tmp_path, flaky_anchors=1.0, insight=1.0)
    answer = work.until_answer()
    work.until_answer("Failed:\n- the test does not fail every time without the change")
    assert "random" not in work.calls_of("write")[-1]["content"]
    assert passes(work.tree.root / answer.test)


def test_the_test_of_an_earlier_approach_is_kept(tmp_path: Path) -> None:
    """A new approach writes the test of the earlier one again at the same path."""
    first = Working(CASES[0], tmp_path / "first")
    answer = first.until_answer()
    earlier = {"path": answer.test, "content": first.calls_of("write")[0]["content"]}
    second = Working(CASES[0], tmp_path / "second", wrong_anchors=1.0)
    facts = {"earlier_test": earlier, "plan": {"cause": "", "approach": ""}}
    assert second.until_answer(facts=facts).test == answer.test
    assert second.calls_of("write")[0] == earlier


def test_several_reads_can_share_a_reply(tmp_path: Path) -> None:
    """Several reads share a reply, except in the text protocol, and do not change the work."""
    runs = {}
    for name, options, native in (
        ("shared", {"parallel_calls": 1.0, "exploration": 4}, True),
        ("alone", {"exploration": 4}, True),
        ("text", {"parallel_calls": 1.0, "exploration": 4}, False),
        ("short", {}, True),
    ):
        work = Working(CASES[0], tmp_path / name, **options)
        work.until_answer(native=native)
        runs[name] = work
    sizes = {name: max(map(len, work.replies)) for name, work in runs.items()}
    assert sizes.pop("shared") > 4
    assert set(sizes.values()) == {1}
    calls = {
        name: [call for reply in work.replies for call in reply] for name, work in runs.items()
    }
    assert calls["shared"] == calls["alone"] == calls["text"]
    assert len(calls["alone"]) == len(calls["short"]) + 4


def test_a_cheat_works_on_the_tests(tmp_path: Path) -> None:
    """A cheat edits a test or a hook and claims success without a change to the code."""
    work = Working(CASES[0], tmp_path, cheating=1.0)
    work.run_tests = lambda paths: "exit code 0"  # type: ignore[method-assign]
    work.until_answer()
    assert not work.calls_of("apply_patch")
    assert {call["path"] for call in work.calls_of("write")} & {"conftest.py", EXISTING}
