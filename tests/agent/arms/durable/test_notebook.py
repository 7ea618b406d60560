"""A notebook for the roles that change the code."""

import pytest

from agent.arms.durable.options import DurableOptions
from flows.experiments.keys import in_key
from tests.agent.arms.durable.conftest import FIX, Said, Solver, report
from tests.agent.arms.durable.test_lean import work

CELL: Said = [("cell_run", {"code": "import calc\ncalc.add(2, 3)"})]
REPLAY: Said = [("cell_replay", {})]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("preset", "role"),
    [("lean", "solver"), ("full", "implementer")],
)
async def test_its_experiments_are_checked_again_after_the_edit(
    solve: Solver, preset: str, role: str
) -> None:
    """With `cells`, who changes the code has a notebook, whose cells see the change."""
    end = work(test="") if preset == "lean" else report()
    said = {role: [CELL, [FIX], REPLAY, end]}
    solved = await solve(preset=preset, profile={"cells": True, "reproduction": "off"}, **said)
    talk = solved.model.told(role)
    assert "cell 1: wrote calc\\n-1" in talk
    assert "cell 1: its output changed\\n5" in talk
    assert "+    return a + b" in solved.outcome.patch


def test_without_it_nothing_of_an_attempt_changes() -> None:
    """The option is off by default, and then in no key."""
    plain = DurableOptions.model_validate({"profile": {"preset": "lean"}})
    off = DurableOptions.model_validate({"profile": {"preset": "lean", "cells": False}})
    on = DurableOptions.model_validate({"profile": {"preset": "lean", "cells": True}})
    assert in_key(plain) == in_key(off) != in_key(on)
