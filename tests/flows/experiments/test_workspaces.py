"""The workspaces of attempts and gradings on one machine."""

import pytest

from eval.instances import load
from flows.experiments.cells import Place
from flows.experiments.workspaces import AttemptWorkspaces

pytestmark = pytest.mark.slow

[INSTANCE, *_] = load("bundled")
HERE = Place("host")


async def test_equal_cells_of_two_lakes_have_workspaces_of_their_own() -> None:
    """Equal cells of two lakes have equal attempt ids, so the journal's id keeps their workspaces
    apart."""
    one, other = (
        AttemptWorkspaces(INSTANCE, HERE, "attempt", journal_id, "attempt")
        for journal_id in ("11111111-1", "22222222-2")
    )
    async with one.open("", image="", goes_on=False) as first:
        await first.write("kept", b"of one lake")
        async with other.open("", image="", goes_on=False):
            pass
        assert (await first.run("pwd; cat kept", timeout_s=10)).output == (
            f"{one.root}\nof one lake"
        )
