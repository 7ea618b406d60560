"""Derived arms: their options, refusals, and the keys and the order of their cells."""

from typing import Any

import pytest

from agent.workspaces import Environment
from eval import instances
from flows.display.errors import UsageError
from flows.experiments import declaration
from flows.experiments.arms import DurableArm
from flows.experiments.cells import Cell, Place, in_order
from flows.experiments.declaration import Experiment
from flows.experiments.keys import attempt_key

LEAN = {"name": "lean", "agent": "durable", "options": {"profile": {"rounds": 30}}}
STRICT = {"name": "strict", "from": "lean", "options": {"profile": {"review": "always"}}}
STRICTER = {"name": "stricter", "from": "strict", "options": {"profile": {"repairs": 0}}}


def parse(*arms: Any, **content: Any) -> Experiment:
    model = {"provider": "simulated", "skill": 1}
    whole = {"name": "trial", "model": model, "arms": [*arms], **content}
    return declaration.parse(whole, "trial.yaml")


def cell(experiment: Experiment, arm: str, environment: Environment = "host") -> Cell:
    [instance] = [
        each for each in instances.load("bundled", "test") if "quillet-1" in each.instance_id
    ]
    return Cell(experiment, experiment.arm(arm), instance, 0, Place(environment))


def test_a_derived_arm_takes_over_what_it_does_not_change() -> None:
    """Agent, model and options come from the base, at any depth and over several arms."""
    mini = {"name": "mini", "agent": "mini"}
    model = {"provider": "simulated", "skill": 0.5}
    declared = parse(mini, STRICTER, {**LEAN, "model": model}, STRICT)
    stricter = declared.arm("stricter")
    assert isinstance(stricter, DurableArm)
    assert stricter.model == declared.arm("lean").model
    changed = stricter.options.profile.model_dump(exclude_defaults=True)
    assert changed == {"rounds": 30, "review": "always", "repairs": 0}
    assert [arm.name for arm in declared.bases(stricter)] == ["strict", "lean"]


def test_a_recorded_declaration_is_the_same_one() -> None:
    """A declaration that was written out with all defaults is read back, with the same keys."""
    full = {"name": "full", "from": "lean", "options": {"profile": {"preset": "full"}}}
    declared = parse({"name": "lean", "agent": "durable"}, STRICT, full)
    again = declaration.from_record(declared.model_dump_json())
    assert again == declared
    assert all(
        attempt_key(cell(again, arm)) == attempt_key(cell(declared, arm))
        for arm in ("lean", "strict", "full")
    )


@pytest.mark.parametrize(
    ("arms", "message"),
    [
        ([STRICT], "'strict' derives from 'lean', no arm of this experiment"),
        ([{**STRICT, "from": "strict"}], "arms derive from each other: strict"),
        (
            [{**STRICT, "from": "stricter"}, STRICTER],
            "arms derive from each other: strict from stricter",
        ),
        ([LEAN, {**STRICT, "agent": "mini"}], "whose agent is durable: it cannot be mini"),
        ([LEAN, {**STRICT, "dataset": "other"}], "it has the dataset of the experiment"),
        ([LEAN, {**STRICT, "environment": "host"}], "it has the environment of the experiment"),
        ([LEAN, {**STRICT, "options": {}}], "'strict' changes nothing of 'lean'"),
        (
            [LEAN, {**STRICT, "options": {"profile": {"rounds": 30}}}],
            "'strict' changes nothing of 'lean'",
        ),
        ([LEAN, {**STRICT, "options": {"colour": 1}}], "colour: unknown key"),
    ],
    ids=["absent", "itself", "cycle", "agent", "dataset", "environment", "nothing", "same", "key"],
)
def test_what_cannot_be_derived_is_refused_in_one_line(
    arms: list[dict[str, Any]], message: str
) -> None:
    """An absent base, a cycle, a base of another kind and a change of nothing are refused."""
    with pytest.raises(UsageError) as refused:
        parse(*arms)
    assert message in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_derived_cell_is_keyed_by_its_base_attempt() -> None:
    """Another base is another attempt; an arm that is not derived keeps its key."""
    declared, other = parse(LEAN, STRICT), parse({**LEAN, "options": {}}, STRICT)
    options = declared.arm("strict").options.model_dump(mode="json")
    alone = parse({"name": "strict", "agent": "durable", "options": options})
    keys = {attempt_key(cell(each, "strict")) for each in (declared, other, alone)}
    assert len(keys) == 3
    assert attempt_key(cell(declared, "lean")) == attempt_key(cell(parse(LEAN), "lean"))


def test_derived_arms_begin_an_instance_after_their_bases() -> None:
    """The order of the others is as before, so that a derived arm changes nothing for them."""
    mini = {"name": "mini", "agent": "mini"}
    declared, without = parse(STRICTER, mini, STRICT, LEAN), parse(mini, LEAN)
    for instance in instances.load("bundled", "test"):
        names = [arm.name for arm in in_order(declared, instance, 0)]
        assert names[2:] == ["strict", "stricter"]
        assert names[:2] == [arm.name for arm in in_order(without, instance, 0)]
