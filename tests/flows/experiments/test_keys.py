"""Cache keys: their content, and that no field is forgotten."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from agent.arms import ARMS
from agent.arms.options import MiniOptions
from eval.types import Instance
from flows.experiments import declaration
from flows.experiments.cells import Cell, Place, Submission
from flows.experiments.declaration import Experiment
from flows.experiments.keys import (
    ALWAYS_IN_KEY,
    CELL_KEY_FIELDS,
    CELL_KEY_IGNORED,
    attempt_key,
    in_key,
    verdict_key,
)

OF_0_1 = json.loads(Path(__file__).with_name("keys_of_0_1.json").read_text())
"""Arms, and the keys that release 0.1 gave their attempts."""

INSTANCE = Instance(
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
    digest="row",
)


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


def test_every_field_of_an_experiment_is_in_the_key_or_ignored_for_a_reason() -> None:
    """A new field has to be decided on before it can be used."""
    assert not CELL_KEY_FIELDS.keys() & CELL_KEY_IGNORED.keys()
    assert CELL_KEY_FIELDS.keys() | CELL_KEY_IGNORED.keys() == Experiment.model_fields.keys()


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
def test_what_decides_an_attempt_changes_its_key(changes: dict[str, Any]) -> None:
    """Another name, model, arm, limit, repeat or environment is another attempt."""
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
        {"place": Place("docker", "sha256:2")},
    ],
)
def test_what_does_not_is_not_bought_again(changes: dict[str, Any]) -> None:
    """An image that was built again, more repeats, more workers: the attempt stands."""
    assert attempt_key(cell(**changes)) == attempt_key(cell())


@pytest.mark.parametrize("known", OF_0_1, ids=[json.dumps(each["arm"]) for each in OF_0_1])
def test_attempts_of_release_0_1_keep_their_keys(known: dict[str, Any]) -> None:
    """An upgrade buys nothing again, whatever options and models an arm has."""
    assert (
        attempt_key(cell(arms=[{"name": "a", **known["arm"]}], primary=None, model=None), version=1)
        == (known["key"])
    )


class LaterOptions(MiniOptions):
    """The options of a later release, which has one more."""

    patience: int = 3


def test_a_new_option_changes_no_key_that_does_not_use_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is in the key of an attempt only where it differs from its default."""
    monkeypatch.setitem(ALWAYS_IN_KEY, LaterOptions, ALWAYS_IN_KEY[MiniOptions])
    assert in_key(LaterOptions()) == in_key(MiniOptions())
    assert in_key(LaterOptions(patience=3)) == in_key(MiniOptions())
    assert in_key(LaterOptions(patience=4)) == {**in_key(MiniOptions()), "patience": 4}


@pytest.mark.parametrize("model", ALWAYS_IN_KEY, ids=lambda model: model.__name__)
def test_a_later_field_has_a_default(model: type[BaseModel]) -> None:
    """Without one it would be in every key."""
    later = {n: f for n, f in model.model_fields.items() if n not in ALWAYS_IN_KEY[model]}
    assert [name for name, field in later.items() if field.is_required()] == []


def test_another_version_of_an_agent_is_another_attempt(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its key holds the version and the options that differ from the defaults of the agent."""
    first = attempt_key(cell())
    monkeypatch.setitem(ARMS, "mini", replace(ARMS["mini"], version=2))
    assert attempt_key(cell()) != first


SUBMISSION = Submission("trial", "a", INSTANCE, 0, "attempt", "patch", HERE, 60.0)


@pytest.mark.parametrize(
    "changes",
    [
        {"patch": "other"},
        {"place": Place("docker", "sha256:2")},
        {"place": Place("docker", "sha256:1", network=True)},
        {"place": Place("host")},
        {"timeout_s": 61.0},
        {"instance": replace(INSTANCE, digest="edited")},
    ],
)
def test_what_decides_a_verdict_changes_its_key(changes: dict[str, Any]) -> None:
    """Patch, image, environment, timeout and row are graded again when they change."""
    assert verdict_key(replace(SUBMISSION, **changes)) != verdict_key(SUBMISSION)


@pytest.mark.parametrize(
    "changes", [{"experiment": "other"}, {"arm": "b"}, {"repeat": 1}, {"attempt_id": "another"}]
)
def test_whose_patch_it_is_changes_no_key(changes: dict[str, Any]) -> None:
    """The same patch has the same verdict, whoever hands it in."""
    assert verdict_key(replace(SUBMISSION, **changes)) == verdict_key(SUBMISSION)
