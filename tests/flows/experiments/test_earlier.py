"""Which attempts of earlier runs are those of a cell."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agent.journal import Attempt
from agent.journal.watching import Watched
from agent.models.spec import LiteLLMSpec
from flows.display.errors import UsageError
from flows.experiments.cells import Cell
from flows.experiments.earlier import EarlierAttempts, refuse_outdated
from flows.experiments.keys import agent_spec, attempt_key, get_declared_key, key_of
from flows.experiments.records import get_journal_attempt
from tests.flows.experiments.test_keys import EDITED, cell

OF_0_1 = json.loads(Path(__file__).with_name("keys_of_0_1.json").read_text())
"""Arms whose agents have their first version still, and the keys of their attempts in 0.1."""


def of_arm(arm: dict[str, Any]) -> Cell:
    return cell(arms=[{"name": "a", **arm}], primary=None, model=None)


def old_spec(of: Cell) -> dict[str, Any]:
    """Return what earlier releases recorded of an agent: each field of its model."""
    spec, model = agent_spec(of), of.experiment.model_of(of.arm)
    if isinstance(model, LiteLLMSpec):
        later = {"api", "context_tokens", "concurrency"}
        spec["model"] = model.model_dump(mode="json", exclude=later)
    return spec


def attempt(
    of: Cell, key: str, spec: dict[str, Any], steps: int = 0, *, has_ended: bool = False
) -> Watched:
    place = (*of.partition, of.instance.instance_id, of.repeat)
    return Watched(Attempt(key[:32], *place, json.dumps(spec)), has_ended, steps)


@pytest.mark.parametrize("known", OF_0_1, ids=[json.dumps(each["arm"]) for each in OF_0_1])
def test_attempts_of_release_0_1_are_found(known: dict[str, Any]) -> None:
    """They are found under their keys, whatever options and models their arms have, also when a
    model is reached otherwise now. The record of the journal stays the same."""
    old = of_arm(known["arm"])
    there = EarlierAttempts([attempt(old, known["key"], old_spec(old))])
    moved = old
    if isinstance(model := old.arm.model, LiteLLMSpec):
        changes = {"api_base": "http://elsewhere/v1", "timeout_s": 7.0, "concurrency": 2}
        changed = model.model_copy(update=changes).model_dump(mode="json")
        moved = of_arm({**known["arm"], "model": changed})
    for now in (old, moved):
        found = there.resume(now)
        assert attempt_key(found) == known["key"]
        assert json.loads(get_journal_attempt(found, "1").spec) == old_spec(old)


@pytest.mark.parametrize("known", OF_0_1, ids=[json.dumps(each["arm"]) for each in OF_0_1])
def test_attempts_whose_journal_is_lost_are_found_in_the_lake(known: dict[str, Any]) -> None:
    """A lake that was bound to another journal has the rows of its attempts."""
    old = of_arm(known["arm"])
    found = EarlierAttempts([], [known["key"][:32]]).resume(old)
    assert attempt_key(found) == known["key"]
    assert json.loads(get_journal_attempt(found, "1").spec) == old_spec(old)


def test_an_attempt_of_another_cell_is_not_continued() -> None:
    """Another seed, network or row is no part of what is recorded of the agent, and yet another
    attempt; so is an attempt whose id is not that of its record."""
    was = of_arm({"agent": "mini", "model": "openai/gpt-5"})
    key = key_of(was, old_spec(was), None)
    here = attempt(was, key, old_spec(was))
    assert attempt_key(EarlierAttempts([here]).resume(was)) == key
    arms = {"arms": [was.arm.model_dump(mode="json")], "primary": None, "model": None}
    edited = replace(was, instance=EDITED)
    for other in (cell(**arms, seed=1), cell(**arms, network=True), edited):
        assert attempt_key(EarlierAttempts([here]).resume(other)) == get_declared_key(other)
    wrong = EarlierAttempts([attempt(was, "0" * 64, old_spec(was))])
    assert attempt_key(wrong.resume(was)) == get_declared_key(was)


def test_of_several_attempts_the_one_closest_to_its_end_is_continued() -> None:
    """An ended one comes first, and then the one with most steps, in whatever order they are read:
    somebody changed the address when earlier releases bought again."""
    was = of_arm({"agent": "mini", "model": "openai/gpt-5"})

    def at(port: int, steps: int, *, has_ended: bool = False) -> Watched:
        spec = old_spec(was)
        spec["model"]["api_base"] = f"http://127.0.0.1:{port}/v1"
        key = key_of(was, spec, None)
        return attempt(was, key, spec, steps, has_ended=has_ended)

    few, most, ended = at(1, 3), at(2, 9), at(3, 5, has_ended=True)
    own = attempt(was, get_declared_key(was), agent_spec(was), 4)
    for there, wanted in [
        ([few, most, own], most),
        ([own, few], own),
        ([most, ended, few, own], ended),
    ]:
        for order in (there, there[::-1]):
            key = attempt_key(EarlierAttempts(order).resume(was))
            assert key[:32] == wanted.attempt.attempt_id


def test_an_earlier_version_is_refused_however_its_attempts_were_keyed() -> None:
    """What was recorded says that the agent had no version then. Where the present version has an
    attempt as well, nothing is bought again."""
    now = of_arm({"agent": "durable", "model": "openai/gpt-5"})
    old = attempt(now, "1" * 64, {"agent": "durable", "options": {"any": "form"}, "model": None})
    with pytest.raises(UsageError, match=r"'a' by version 1 of the durable agent"):
        refuse_outdated([now], EarlierAttempts([old]))
    own = attempt(now, get_declared_key(now), agent_spec(now))
    refuse_outdated([now], EarlierAttempts([old, own]))
    refuse_outdated([of_arm({"agent": "gold"})], EarlierAttempts([old]))
