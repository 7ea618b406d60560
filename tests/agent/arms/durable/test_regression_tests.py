"""The existing tests of a change: which are found, which are refused, and what they may cost."""

import time

import pytest

from agent.arms.durable import arm
from agent.arms.durable.options import DurableOptions
from agent.types import Outcome
from tests.agent.arms.durable.conftest import (
    ANCHOR,
    FILES,
    FIX,
    HONEST,
    QUICK,
    TASK,
    WRITE,
    RoleModel,
    Said,
    Solver,
    Use,
    answer,
)
from tests.agent.arms.loop.conftest import Attempts
from tests.agent.repositories import with_files
from tests.agent.workspaces_on_host import HostWorkspaces

pytestmark = pytest.mark.slow

SPOIL_DOUBLE: Use = ("edit", {"path": "calc.py", "old": "2 * a", "new": "3 * a"})
MEND_DOUBLE: Use = ("edit", {"path": "calc.py", "old": "3 * a", "new": "2 * a"})
DOUBLE = "from calc import double\n\n\ndef test_double():\n    assert double(2) == 4\n"
SLOW = f"import time\n\n{DOUBLE}\n\ndef test_slow():\n    time.sleep(120)\n"


def work(*related: str) -> Said:
    return answer(
        summary="add adds",
        test=ANCHOR,
        related_tests=list(related),
        status="done",
        confidence="high",
    )


async def test_a_slow_test_costs_a_share_and_is_named(attempts: Attempts) -> None:
    """The fast test that covers the change runs, the slow ones are ended and named."""
    slow = {f"tests/test_calc_{name}.py": SLOW for name in ("all", "more", "speed")}
    attempts.workspaces = HostWorkspaces(with_files({**FILES, **slow}))
    scripts = {**HONEST, "solver": [[WRITE], [FIX], work()]}
    options = DurableOptions.model_validate({"profile": {"test_command": QUICK}})

    async def run() -> Outcome:
        async with attempts.opened(RoleModel(scripts)) as session:
            return await arm.solve(TASK, session, options)

    begun = time.monotonic()
    outcome = await run()
    assert time.monotonic() - begun < 60
    assert outcome.report is not None
    [change] = outcome.report["changes"]
    assert change["closed_gates"] == []
    assert change["evidence"][-1]["passed"] == 1
    assert [line.split()[0] for line in change["not_run"]] == sorted(slow)
    places = attempts.places
    assert await run() == outcome
    assert (attempts.places, attempts.model.asked) == (places, [])


async def test_a_named_test_is_run_or_refused_aloud(solve: Solver) -> None:
    """A file with an unusual name is run. A name of no file is told to the model, once."""
    odd, none = "checks/calc_examples.py", "tests/test_nowhere.py"
    solved = await solve(
        preset="lean",
        files={odd: DOUBLE},
        solver=[[WRITE], [FIX, SPOIL_DOUBLE], work(odd, none), [MEND_DOUBLE], work(odd, none)],
    )
    first, last = solved.report["changes"]
    assert first["failed_checks"][0] == f"{none} is not a file of the repository"
    assert f"{odd}::test_double fails and did not before" in first["failed_checks"]
    assert f"{none} is not a file of the repository" in solved.model.told("solver")
    assert last["closed_gates"] == []
    assert odd in last["evidence"][-1]["command"]
