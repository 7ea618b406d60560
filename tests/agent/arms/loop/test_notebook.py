"""A notebook of an agent on the loop whose process or container dies."""

from pathlib import Path

import pytest

from tests.agent.arms.durable.conftest import Said
from tests.agent.arms.loop.conftest import DONE, Attempts, Died

pytestmark = pytest.mark.slow

CELLS: list[Said] = [
    [
        ("cell_run", {"code": "import calc\nxs = [calc.add(5, 3)]"}),
        ("cell_run", {"code": "xs.append(7); ys = xs"}),
    ],
    [("cell_run", {"code": "unused = 1"}), ("cell_run", {"code": "sum(ys)"})],
    [("edit", {"path": "calc.py", "old": "a - b", "new": "a + b"})],
    [("cell_edit", {"cell": 3, "code": "unused = 2"}), ("cells", {})],
    [("cell_replay", {})],
    [("run_ptc", {"code": "await cell_run(code='xs, ys, unused')"})],
    DONE,
]
ROWS = 26
"""Rows that a run has at least."""


async def test_a_replay_after_an_edit_of_the_code_runs_what_depends_on_it(
    attempts: Attempts,
) -> None:
    """The cells that used the edited module run again, and each run is a step of the journal."""
    outcome = await attempts.run({"loop": CELLS}, ["files", "cells", "ptc"])
    assert "+    return a + b" in outcome.patch
    assert_as_wanted(attempts)


def assert_as_wanted(attempts: Attempts) -> None:
    """Check the last two results: of the replay, and of a cell in a program."""
    replayed, program = attempts.told()[-2:]
    assert replayed.splitlines()[-6:] == [
        "ran: cell 1, cell 2, cell 3, cell 4",
        "cell 1: same output",
        "cell 2: same output",
        "cell 3: same output",
        "cell 4: its output changed",
        "15",
    ]
    assert "([8, 7], [8, 7], 2)" in program


async def test_the_tools_of_one_reply_are_used_in_the_order_asked(attempts: Attempts) -> None:
    """A replay after an edit in the same reply runs the edited cell."""
    uses: Said = [
        ("cell_run", {"code": "a = 1\na"}),
        ("cell_edit", {"cell": 1, "code": "a = 2\na"}),
        ("cell_replay", {}),
    ]
    await attempts.run({"loop": [uses, DONE]}, ["cells"])
    assert [told.splitlines()[-1] for told in attempts.told()] == [
        "1",
        "stale: cell 1. Run them with cell_replay.",
        "2",
    ]


async def test_tests_are_protected_from_cells(attempts: Attempts) -> None:
    """A change of an existing test is undone, and the model learns of it."""
    spoil = "open('tests/test_calc.py', 'w').close(); open('calc.py', 'a').write('# more')"
    outcome = await attempts.run({"loop": [[("cell_run", {"code": spoil})], DONE]}, ["cells"])
    assert "tests/test_calc.py" in attempts.told()[0]
    assert "+# more" in outcome.patch
    assert "test_calc" not in outcome.patch


@pytest.mark.slow
@pytest.mark.parametrize("rows", range(ROWS))
async def test_a_resume_runs_only_the_cells_that_are_needed(tmp_path: Path, rows: int) -> None:
    """After a death at any row, the results are those of an undisturbed run, from a new store."""
    attempts = Attempts(tmp_path)
    capabilities = ["files", "cells", "ptc"]
    with pytest.raises(Died):
        await attempts.run({"loop": CELLS}, capabilities, dies_after=rows)
    outcome = await attempts.run({"loop": CELLS}, capabilities)
    assert "+    return a + b" in outcome.patch
    assert_as_wanted(attempts)
