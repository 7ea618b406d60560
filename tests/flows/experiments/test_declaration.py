"""Experiment files: accepted content, and error messages."""

import json
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from agent.capabilities.registry import load
from flows.display.errors import UsageError
from flows.experiments import declaration, plan
from flows.experiments.declaration import Experiment

MINI = {"name": "mini", "agent": "mini", "model": "openai/anything"}
DURABLE = {"name": "durable", "agent": "durable", "model": "openai/anything"}
GOLD = {"name": "gold", "agent": "gold"}
NULL = {"name": "null", "agent": "null"}
FIRST = {"baseline": "null", "candidate": "mini"}


COMPARED = [MINI, GOLD, NULL]


def of(agent: str, options: Any) -> dict[str, Any]:
    return {"name": "a", "agent": agent, "model": "openai/x", "options": options}


def parse(**content: Any) -> Experiment:
    return declaration.parse({"name": "trial", "arms": [GOLD], **content}, "trial.yaml")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"colour": "red"}, "colour: unknown key"),
        ({"arms": [{**GOLD, "skill": 1}]}, "arms.0.gold.skill: unknown key"),
        (
            {"arms": [{"name": "a", "agent": "golden"}]},
            "arms.0: Input tag 'golden' found using 'agent' does not match",
        ),
        ({"arms": []}, "arms: List should have at least 1 item"),
        ({"arms": [GOLD, GOLD]}, "two arms have the same name"),
        ({"arms": [{"name": "a", "agent": "mini"}]}, "arm 'a' needs a model"),
        (
            {"arms": [{**MINI, "agent": "a.b:solve", "options": {"settings": {"check": True}}}]},
            "arms.0: the options of a function are its settings: write them without 'settings'",
        ),
        (
            {"arms": [{**DURABLE, "options": {"profile": {"review": "without_test"}}}]},
            "review: without_test was not worth it and was removed: write never or always",
        ),
        ({"name": "No Spaces"}, "name: String should match pattern"),
        ({"primary": {"baseline": "gold", "candidate": "x"}}, "names no arm of this experiment"),
        ({"arms": COMPARED, "family": [FIRST]}, "a family needs a primary comparison"),
        (
            {"arms": COMPARED, "primary": {**FIRST, "margin": 5}},
            "primary.margin: Input should be less than 1",
        ),
        (
            {"arms": COMPARED, "primary": {"baseline": "mini", "candidate": "mini"}},
            "primary: 'mini' is compared with itself",
        ),
        (
            {
                "arms": COMPARED,
                "primary": FIRST,
                "family": [{"baseline": "gold", "candidate": "x"}],
            },
            "family.0 names no arm of this experiment: ['x']",
        ),
        (
            {
                "arms": COMPARED,
                "primary": FIRST,
                "family": [{"baseline": "mini", "candidate": "null"}],
            },
            "family.0 declares mini and null again",
        ),
        (
            {"arms": COMPARED, "primary": FIRST, "family": [{**FIRST, "margin": 0.1}]},
            "family.0.margin: unknown key",
        ),
        (
            {"arms": [of("mini", {"profile": {"parallel": 1}})]},
            "arms.0.mini.options.profile: unknown key",
        ),
        ({"arms": [of("gold", {"step_limit": 3})]}, "arms.0.gold.options.step_limit: unknown key"),
        ({"arms": [of("durable", {"profile": {"paralel": 1}})]}, "unknown key"),
        (
            {"arms": [of("durable", {"profile": {"map_tokens": 900}})]},
            "delete map_tokens: the repository map",
        ),
    ],
)
def test_a_mistake_is_one_line_that_names_the_key(content: dict[str, Any], message: str) -> None:
    """A mistake in the file is reported in one line with the key and the fault."""
    with pytest.raises(UsageError, match=r"^trial\.yaml: ") as caught:
        parse(**content)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_only_a_primary_comparison_can_end_an_experiment() -> None:
    """The rule names what is decided, and a level between 0 and 0.5."""
    with pytest.raises(UsageError, match=r"stop_when needs a primary comparison: declare one$"):
        parse(stop_when={"primary": "decided"})
    both: dict[str, Any] = {"arms": [MINI, NULL], "primary": FIRST}
    rule = parse(**both, stop_when={"primary": "decided"}).stop_when
    assert rule is not None
    assert rule.alpha == 0.05
    for alpha in (0, 0.5, float("nan")):
        with pytest.raises(UsageError, match=r"stop_when\.alpha: Input should be "):
            parse(**both, stop_when={"primary": "decided", "alpha": alpha})


@pytest.mark.parametrize("text", ["", "- a list", "name: [unclosed", "just words"])
def test_a_file_that_is_no_experiment_is_refused(text: str, tmp_path: Path) -> None:
    """A file that is no experiment is refused in one line."""
    path = tmp_path / "trial.yaml"
    path.write_text(text)
    with pytest.raises(UsageError, match=r"trial\.yaml") as caught:
        declaration.load(path)
    assert "\n" not in str(caught.value)


def test_the_models_of_roles_are_declared_with_the_arms() -> None:
    """The recorded model of an arm includes the models of its roles."""
    roles = {"planner": {"model": {"provider": "simulated", "skill": 1}}, "brief": {}}
    thinker = {**MINI, "name": "b", "agent": "durable", "options": {"profile": {"roles": roles}}}
    declared = parse(arms=[MINI, thinker, GOLD])
    now = datetime.now(UTC)
    written = dict(plan.experiment_rows(declared, [], "", "", "host", now))
    assert {arm: (row["model"], row["simulated"]) for arm, row in written.items()} == {
        "mini": ("openai/anything", False),
        "b": ("openai/anything, planner: simulated/skill-1", True),
        "gold": ("none", False),
    }


def test_isolation_is_retired() -> None:
    """The error says what to write. Flow runs and records of earlier releases continue."""
    with pytest.raises(UsageError, match="isolation is retired, .*: remove the key"):
        parse(isolation="process")
    assert parse(isolation="none") == parse()
    recorded = {**parse().model_dump(mode="json"), "isolation": "flow_run"}
    assert declaration.from_record(json.dumps(recorded)) == parse()


def test_a_capability_lies_in_the_folder_of_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its module needs neither a package nor a search path."""
    monkeypatch.setattr("sys.path", [*sys.path])
    own = "from agent.capabilities import Capability\nOWN = Capability('own')\n"
    (tmp_path / "tools_of_trial.py").write_text(own)
    options = {"capabilities": ["files", "tools_of_trial:OWN"]}
    arm = {"name": "own", "agent": "loop", "model": "openai/anything", "options": options}
    (tmp_path / "trial.yaml").write_text(json.dumps({"name": "trial", "arms": [arm]}))
    declared = declaration.load(tmp_path / "trial.yaml")
    assert load(declared.arm("own").options.capabilities)[1].name == "own"
