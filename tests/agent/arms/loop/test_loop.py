"""The loop arm: its capabilities, its ends and its steps."""

from pathlib import Path

import pytest

from agent.arms.options import LoopOptions
from agent.errors import InfrastructureError, InvalidSpec
from agent.models.spec import ScriptedSpec
from tests.agent.arms.durable.conftest import FIX
from tests.agent.arms.loop.conftest import DONE, Attempts

FAULTS = "tests.agent.arms.loop.faults:FAULTS"

OWN = ScriptedSpec(provider="scripted", replies=["x"])


async def test_a_task_is_solved_with_direct_tools(attempts: Attempts) -> None:
    """Each use of a tool is a step, and the change is submitted. Results are in the order asked."""
    look = ("read", {"path": "calc.py"})
    outcome = await attempts.run({"loop": [[look, FIX, look], DONE]}, ["files"])
    assert (outcome.status, outcome.detail) == ("submitted", "did it")
    assert "+    return a + b" in outcome.patch
    first, edited, second = attempts.told()
    assert ("a - b" in first, "a + b" in second, "calc.py" in edited) == (True, True, True)
    kinds = ["model", "action", "action", "action", "model"]
    assert attempts.places == ["/0 action", *(f"work/{n} {kind}" for n, kind in enumerate(kinds))]


@pytest.mark.parametrize(
    ("script", "limits", "status", "detail"),
    [
        ([[("read", {"path": "calc.py"})]], {"rounds": 2}, "out_of_steps", "out_of_rounds"),
        (
            [[("read", {"path": "calc.py"})]],
            {"limits": {"calls": 1}},
            "out_of_steps",
            "made its 1 model calls",
        ),
        ([[("broken", {})]], {}, "gave_up", "the tool is broken"),
    ],
)
async def test_an_attempt_that_cannot_go_on_ends(
    attempts: Attempts, script: list, limits: dict, status: str, detail: str
) -> None:
    """Used-up rounds, used-up limits and a broken tool end the attempt without another call."""
    for _ in range(2):
        outcome = await attempts.run({"loop": script}, ["files", FAULTS], **limits)
        assert (outcome.status, detail in outcome.detail) == (status, True)
    assert attempts.model.asked == []


async def test_a_flaky_tool_is_tried_again_and_an_invalid_use_is_not(attempts: Attempts) -> None:
    """A reason that passes costs retries. The model reads a refusal once."""
    uses = [("flaky", {"failures": 2}), ("invalid", {"amount": 0}), ("invalid", {"amount": 1})]
    await attempts.run({"loop": [uses, DONE]}, [FAULTS])
    assert attempts.session is not None
    results = [s.result.content for s in attempts.session.steps if s.scope and s.kind == "action"]
    assert [(r["ok"], r["retries"]) for r in results] == [(True, 2), (False, 0), (True, 0)]
    assert attempts.told()[1] == "amount is 0, and has to be at least 1"


async def test_a_tool_that_stays_flaky_is_broken_infrastructure(attempts: Attempts) -> None:
    """After three tries nothing is known about the patch, and nothing is recorded."""
    with pytest.raises(InfrastructureError, match="the service does not answer"):
        await attempts.run({"loop": [[("flaky", {"failures": 3})]]}, [FAULTS])


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"capabilities": ["file"]}, "there is no capability 'file': name one of files, "),
        ({"capabilities": ["no.such:NAME"]}, "no.such:NAME cannot be imported"),
        ({"capabilities": ["agent.types:Task"]}, "is not a Capability"),
        ({"capabilities": ["files", "look"]}, "has a tool read, as files has"),
        ({"capabilities": ["broken_capability:NAME"]}, "RuntimeError: no database"),
        ({"subagents": {"kinds": {"loop": {}}}}, "cannot be named loop"),
        ({"roles": {"critic": OWN}}, "no kind of subagent is declared for role critic"),
        (
            {"capabilities": ["subagents"], "subagents": {"kinds": {}}},
            "capability subagents needs a kind",
        ),
        (
            {"subagents": {"kinds": {"scout": {"capabilities": ["files"]}}}},
            "kind scout must not write, but have write, edit, apply_patch",
        ),
    ],
)
def test_a_declaration_that_cannot_work_is_refused(
    options: dict, problem: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An unknown or unfit capability, kind or role is refused before anything runs."""
    (tmp_path / "broken_capability.py").write_text("raise RuntimeError('no database')\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(InvalidSpec, match=problem):
        LoopOptions.model_validate(options).models(OWN)


async def test_a_call_in_the_text_is_replayed(attempts: Attempts) -> None:
    """A resumed attempt reads the same calls in the same texts, and asks for nothing again."""
    look = '<tool_call>{"name": "read", "arguments": {"path": "calc.py"}}</tool_call>'
    for _ in range(2):
        outcome = await attempts.run({"loop": [look, look[:-1], look, [FIX], DONE]}, ["files"])
        assert outcome.status == "submitted"
        kinds = ["model", "action", "model", "model", "action", "model", "action", "model"]
        places = [f"work/{number} {kind}" for number, kind in enumerate(kinds)]
        assert sorted(attempts.places) == ["/0 action", *places]
    assert attempts.model.asked == []
