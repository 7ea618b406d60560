"""Model specifications: accepted values, and error messages."""

from pathlib import Path

import pytest

from agent.errors import InvalidSpec
from agent.models import (
    LiteLLMSpec,
    RecordedSpec,
    ScriptedSpec,
    SimulatedSpec,
    build,
    parse,
)
from agent.types import Task

TASK = Task("demo__one", "It is broken.", "0" * 40, "diff --git a/x b/x\n")


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        ("openai/gpt-5", LiteLLMSpec),
        ({"name": "openai/x", "timeout_s": 5}, LiteLLMSpec),
        ({"provider": "simulated", "skill": 0.5}, SimulatedSpec),
        ({"provider": "recorded", "path": "runs"}, RecordedSpec),
        ({"provider": "scripted", "replies": ["a", {"command": "ls"}]}, ScriptedSpec),
    ],
)
def test_provider_chooses_the_kind(value: object, kind: type) -> None:
    """LiteLLM is the default provider. A specification survives the JSON of an experiment."""
    spec = parse(value)
    assert isinstance(spec, kind)
    assert parse(spec.model_dump(mode="json")) == spec
    assert parse(spec) is spec


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ({"name": "openai/x", "temprature": 1}, "temprature"),
        ({"provider": "simulated"}, "skill"),
        ({"provider": "simulated", "skill": 2}, "skill"),
        ({"provider": "oracle"}, "oracle"),
        (
            {"provider": "simulated", "skill": 1, "wrong_anchors": 0.6, "flaky_anchors": 0.6},
            "must not exceed 1",
        ),
        ({"name": "openai/x", "input_cost_per_token": 1e-6}, "output_cost_per_token"),
        ({"name": "openai/x", "extra": {"api_key": "k"}}, "api_key"),
        ("", "name"),
        (7, "model"),
    ],
)
def test_a_mistake_is_reported_in_one_line(value: object, words: str) -> None:
    """The error is one line and names the field."""
    with pytest.raises(InvalidSpec) as caught:
        parse(value)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("value", "name"),
    [
        ("openai/gpt-5", "openai/gpt-5"),
        ({"provider": "simulated", "skill": 0.25}, "simulated/skill-0.25"),
        ({"provider": "scripted", "replies": []}, "scripted"),
    ],
)
def test_build_makes_the_model_of_an_attempt(value: object, name: str) -> None:
    """A model has a name before it is called."""
    assert build(parse(value), TASK, seed=1).info.name == name


def test_build_says_which_recording_is_missing(tmp_path: Path) -> None:
    """A folder without the instance's recording gives an error that names the missing file."""
    spec = RecordedSpec(provider="recorded", path=tmp_path)
    with pytest.raises(InvalidSpec, match=r"demo__one\.traj\.json"):
        build(spec, TASK, seed=1)
