"""Settings of the durable arm's roles and tests in an experiment."""

import pytest
from pydantic import TypeAdapter, ValidationError

from agent.arms.durable.options import FullProfile, LeanProfile, Profile, RoleModel
from agent.errors import InvalidSpec
from agent.models.spec import LiteLLMSpec, SimulatedSpec, parse

PROFILE: TypeAdapter[LeanProfile | FullProfile] = TypeAdapter(Profile)

OWN = LiteLLMSpec(name="openai/own", temperature=0.1)


def test_a_role_has_the_arms_model_unless_it_names_another() -> None:
    """A role may name a model, or override temperature and effort of the arm's model."""
    assert RoleModel().of(OWN) == OWN
    hotter = RoleModel(temperature=0.9, reasoning_effort="high").of(OWN)
    assert hotter == OWN.model_copy(update={"temperature": 0.9, "reasoning_effort": "high"})
    other = RoleModel(model=parse("openai/other"), temperature=0.0).of(OWN)
    assert isinstance(other, LiteLLMSpec)
    assert (other.name, other.temperature) == ("openai/other", 0.0)


def test_roles_without_a_model_of_their_own_are_answered_by_the_arms() -> None:
    """By default the arm's model answers every role."""
    assert LeanProfile().models(OWN) == {"": OWN}
    profile = LeanProfile.model_validate({"roles": {"planner": {"model": "openai/other"}}})
    assert profile.models(OWN) == {"": OWN, "planner": LiteLLMSpec(name="openai/other")}


def test_a_model_without_a_temperature_says_so() -> None:
    """The error names the settings that the model does not have."""
    simulated = SimulatedSpec(provider="simulated", skill=0.5)
    with pytest.raises(InvalidSpec, match="a simulated model has no temperature and no reasoning"):
        RoleModel(temperature=1, reasoning_effort="low").of(simulated)


@pytest.mark.parametrize(
    ("declared", "preset"),
    [
        ({}, "lean"),
        ({"repairs": 1}, "lean"),
        ({"candidates": {"low": 3}}, "full"),
        ({"plan_turns": 3}, "full"),
        ({"preset": "full"}, "full"),
    ],
)
def test_settings_of_one_preset_alone_choose_it(declared: dict[str, object], preset: str) -> None:
    """Declarations of release 0.1 name no preset, so settings of a single preset choose it."""
    assert PROFILE.validate_python(declared).preset == preset


@pytest.mark.parametrize(
    "wrong",
    [
        {"roles": {"poet": {}}},
        {"test_command": "pytest"},
        {"reproduction": "sometimes"},
        {"candidates": {"none": 1}},
        {"colour": "red"},
        {"preset": "lean", "candidates": {"low": 3}},
    ],
)
def test_mistakes_are_rejected_before_anything_runs(wrong: dict[str, object]) -> None:
    """Unknown names and a test command without `{paths}` are rejected."""
    with pytest.raises(ValidationError):
        PROFILE.validate_python(wrong)


@pytest.mark.parametrize(("preset", "tokens"), [("lean", 0), ("full", 4_000)])
def test_records_with_the_default_of_a_removed_option_are_read(preset: str, tokens: int) -> None:
    """Earlier releases recorded every option with its default, also the size of a map."""
    recorded = {"preset": preset, "map_tokens": tokens}
    assert PROFILE.validate_python(recorded) == PROFILE.validate_python({"preset": preset})
