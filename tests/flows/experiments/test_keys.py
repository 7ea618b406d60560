"""The content of cache keys, and the rule that every field is considered."""

from dataclasses import replace
from typing import Any

import pytest
from pydantic import BaseModel

from agent.arms.options import MiniOptions
from eval.resources import Demand
from eval.types import Instance
from flows.experiments import declaration
from flows.experiments.cells import Cell, Place, Submission
from flows.experiments.declaration import Experiment
from flows.experiments.keys import (
    ALWAYS_IN_KEY,
    CELL_KEY_FIELDS,
    EXTRA_IGNORED,
    MODEL_KEY_IGNORED,
    attempt_key,
    in_key,
    model_origins,
)
from flows.experiments.resources import Resources


class KnownInstance(Instance):
    """An instance whose digest is the one of the recorded keys."""

    digest = "row"


INSTANCE = KnownInstance(
    instance_id="a__b-1",
    repo="a/b",
    version="1",
    base_commit="0" * 40,
    problem_statement="",
    patch="",
    test_patch="",
    image="image",
    eval_script="",
    log_parser="parse_log_pytest",
    eval_type="pass_and_fail",
    fail_to_pass=(),
    pass_to_pass=(),
    row={},
)
EDITED = Instance(**vars(INSTANCE))


HERE = Place("docker", "sha256:1")

CONTROLS = [{"name": name, "agent": name} for name in ("gold", "null")]


def cell(place: Place = HERE, repeat: int = 0, **changes: Any) -> Cell:
    content: dict[str, Any] = {
        "name": "trial",
        "arms": [{"name": "a", "agent": "mini"}, *CONTROLS],
        "primary": {"baseline": "a", "candidate": "gold"},
        "model": {"provider": "simulated", "skill": 0.5},
        **changes,
    }
    declared = declaration.parse(content, "test")
    return Cell(declared, declared.arms[0], INSTANCE, repeat, place)


CELL_KEY_IGNORED = {
    "dataset": "the row's own digest is in the key",
    "split": "the row's own digest is in the key",
    "select": "which other instances are run does not change this one",
    "environment": "the environment that was decided is in the key",
    "arms": "the cell's own arm is in the key",
    "model": "the model that answers the cell is in the key",
    "repeats": "the cell's own repeat is in the key; more repeats keep the earlier ones",
    "concurrency": "changes when a cell runs, not what it does",
    "resources": "a condition of the commands, recorded with the attempt: who gives the tests more "
    "memory must not buy every attempt again; a grading's key has them",
    "evaluation_timeout_s": "belongs to grading, which has its own key",
    "budgets": "a larger budget resumes the same attempt",
    "execution": "changes who runs a cell, not what is run",
    "rate_limits": "changes when a model is asked, not what it answers",
    "primary": "changes what is reported, not what is run",
    "family": "changes what is reported, not what is run",
    "stop_when": "decides whether a cell is run at all",
    "willingness_to_pay": "changes what is reported, not what is run",
    "images": "changes when an image is local, not what is in it; a grading's key has its digest",
    "preflight": "decides whether a cell is run at all",
    "audit": "belongs to grading, which has its own key",
    "gates": "judge the results, and change nothing of them",
}
"""Fields of an experiment that are not part of a cell's key, with the reason."""

MODEL_KEY_FIELDS = {
    "provider": "distinguishes the kinds of models",
    "name": "another model answers otherwise, and so may the same one at another provider",
    "temperature": "changes the answer",
    "api": "the two APIs hold a conversation in different forms",
    "max_tokens": "an answer ends there, and is then another one",
    "context_tokens": "agents shorten their conversations to it, so the model is asked otherwise",
    "reasoning_effort": "changes the answer",
    "native_tools": "changes the request and the answer",
    "extra": "parameters of the request, except those in `EXTRA_IGNORED`",
}
"""Fields of a LiteLLM model that are part of a key, because they change its answers."""


def test_every_field_of_an_experiment_is_in_the_key_or_ignored_for_a_reason() -> None:
    """Every field of an experiment is either in the key or ignored for a stated reason."""
    assert not CELL_KEY_FIELDS.keys() & CELL_KEY_IGNORED.keys()
    assert CELL_KEY_FIELDS.keys() | CELL_KEY_IGNORED.keys() == Experiment.model_fields.keys()


MODEL = {"name": "openai/gpt-5", "temperature": 0.5, "extra": {"top_p": 0.5}}

REACH = {
    "api_base": "http://localhost:2/v1",
    "timeout_s": 5,
    "concurrency": 1,
    "max_retries": 0,
    "input_cost_per_token": 1.0,
    "output_cost_per_token": 2.0,
    "extra": {"top_p": 0.5, **dict.fromkeys(EXTRA_IGNORED, 1)},
}
"""Other values of every field that says how a model is reached, or what it costs."""

ANSWER: list[dict[str, Any]] = [
    {"name": "openai/gpt-6"},
    {"temperature": 0.6},
    {"api": "responses"},
    {"max_tokens": 100},
    {"context_tokens": 9000},
    {"reasoning_effort": "low"},
    {"native_tools": False},
    {"extra": {"top_p": 0.6}},
]
"""Other values of each field that decides what a model answers."""


def places_of_a_model(model: dict[str, Any]) -> list[dict[str, Any]]:
    """Return declarations with a model at every kind of place."""
    roles = {"solver": {"model": model, "temperature": 0.1}}
    kinds = {"reader": {"model": model}}
    durable = {"agent": "durable", "options": {"profile": {"roles": roles}}}
    loop = {
        "agent": "loop",
        "options": {
            "capabilities": ["look", "subagents"],
            "subagents": {"kinds": kinds},
            "roles": {"loop": model},
        },
    }
    staged = {"agent": "staged", "options": {"roles": {"plan": model}}}
    arms = [{"agent": "mini"}, {"agent": "mini", "model": model}, durable, loop, staged]
    return [{"arms": [{"name": "a", **arm}], "primary": None, "model": model} for arm in arms]


@pytest.mark.parametrize("place", range(len(places_of_a_model(MODEL))))
def test_how_a_model_is_reached_is_no_part_of_a_key(place: int) -> None:
    """Address, timeout, retries and prices change neither the key of an attempt nor what decides
    the answers of its calls, whatever role the model has; each other field changes both."""
    assert {*REACH} == {*MODEL_KEY_IGNORED, "extra"}
    assert {name for change in ANSWER for name in change} == {*MODEL_KEY_FIELDS} - {"provider"}
    asked, moved, *others = [
        cell(**places_of_a_model({**MODEL, **change})[place]) for change in ({}, REACH, *ANSWER)
    ]
    assert attempt_key(moved) == attempt_key(asked)
    assert model_origins(moved.experiment, moved.arm) == model_origins(asked.experiment, asked.arm)
    assert len({attempt_key(each) for each in [asked, *others]}) == len(others) + 1


@pytest.mark.parametrize(
    "changes",
    [
        {"name": "another"},
        {"seed": 1},
        {"network": True},
        {"model": {"provider": "simulated", "skill": 0.6}},
        {"arms": [{"name": "b", "agent": "mini"}], "primary": None},
        {
            "arms": [{"name": "a", "agent": "mini", "options": {"step_limit": 3}}],
            "primary": None,
        },
        {"repeat": 1},
        {"place": Place("host")},
    ],
)
def test_the_key_of_an_attempt_changes_with_what_defines_it(changes: dict[str, Any]) -> None:
    """Another name, seed, network, model, arm, option, repeat or environment is another attempt."""
    assert attempt_key(cell(**changes)) != attempt_key(cell())


@pytest.mark.parametrize(
    "changes",
    [
        {"concurrency": 9},
        {"repeats": 3},
        {"evaluation_timeout_s": 5},
        {"primary": {"baseline": "null", "candidate": "a"}},
        {"primary": {"baseline": "null", "candidate": "a", "margin": 0.1}},
        {"family": [{"baseline": "gold", "candidate": "null"}]},
        {"willingness_to_pay": 3.0},
        {
            "primary": {"baseline": "null", "candidate": "a"},
            "stop_when": {"primary": "decided"},
        },
        {"resources": {"memory_gb": 16}},
        {"place": Place("docker", "sha256:2")},
    ],
)
def test_the_key_of_an_attempt_ignores_everything_else(changes: dict[str, Any]) -> None:
    """A rebuilt image, more repeats, more workers or another comparison reuse the attempt."""
    assert attempt_key(cell(**changes)) == attempt_key(cell())


class LaterOptions(MiniOptions):
    """The options of a later release, which has one more."""

    patience: int = 3


def test_a_new_option_changes_no_key_that_does_not_use_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """A new option is in the key only if it differs from its default."""
    monkeypatch.setitem(ALWAYS_IN_KEY, LaterOptions, ALWAYS_IN_KEY[MiniOptions])
    assert in_key(LaterOptions()) == in_key(MiniOptions())
    assert in_key(LaterOptions(patience=3)) == in_key(MiniOptions())
    assert in_key(LaterOptions(patience=4)) == {**in_key(MiniOptions()), "patience": 4}


@pytest.mark.parametrize("model", ALWAYS_IN_KEY, ids=lambda model: model.__name__)
def test_a_later_field_has_a_default(model: type[BaseModel]) -> None:
    """Every field that was added later has a default; otherwise it would change every key."""
    later = {n: f for n, f in model.model_fields.items() if n not in ALWAYS_IN_KEY[model]}
    assert [name for name, field in later.items() if field.is_required()] == []


def test_the_default_resources_are_in_no_key() -> None:
    """Verdicts of earlier releases stay, whether the default is declared or not."""
    declared = Resources(memory_gb=4, cpus=2, pids=1024, disk_gb=20)
    at = replace(HERE, resources=declared)
    assert SUBMISSION.at(at).verdict_key == SUBMISSION.verdict_key
    asked = replace(SUBMISSION, instance=replace(INSTANCE, demand=Demand(memory_gb=16)), place=at)
    assert asked.verdict_key == SUBMISSION.verdict_key


SUBMISSION = Submission("trial", "a", INSTANCE, 0, "attempt", "patch", HERE, 60.0)


@pytest.mark.parametrize(
    "changes",
    [
        {"patch": "other"},
        {"place": Place("docker", "sha256:2")},
        {"place": Place("docker", "sha256:1", network=True)},
        {"place": Place("docker", "sha256:1", resources=Resources(memory_gb=16))},
        {"place": Place("host")},
        {"timeout_s": 61.0},
        {"instance": EDITED},
        {"instance": replace(INSTANCE, demand=Demand(memory_gb=16))},
    ],
)
def test_the_key_of_a_verdict_changes_with_what_defines_it(changes: dict[str, Any]) -> None:
    """Another patch, image, environment, network, timeout or row is graded again."""
    assert replace(SUBMISSION, **changes).verdict_key != SUBMISSION.verdict_key


@pytest.mark.parametrize(
    "changes", [{"experiment": "other"}, {"arm": "b"}, {"repeat": 1}, {"attempt_id": "another"}]
)
def test_the_key_of_a_verdict_ignores_the_author_of_the_patch(changes: dict[str, Any]) -> None:
    """The same patch has the same verdict in every experiment, arm, repeat and attempt."""
    assert replace(SUBMISSION, **changes).verdict_key == SUBMISSION.verdict_key
