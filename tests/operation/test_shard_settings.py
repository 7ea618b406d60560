"""The settings of an experiment hold in its shards."""

from collections import Counter

import pytest

from tests.operation.running import begin, expect, report, resolved, shards
from tests.operation.storms import arms
from tests.servers.prefect_server import PrefectServer
from tests.servers.simulated_server import Simulation

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600), pytest.mark.full]


@pytest.mark.usefixtures("workers")
def test_a_budget_holds_over_all_shards(
    server: PrefectServer, simulation: Simulation, api_base: str
) -> None:
    """The shards of a run share a budget and never exceed it. With a larger one, the next run
    continues, and no call is repeated."""
    chosen = {"name": "bounded", "arms": arms(api_base)[-1:], "select": {"sample": 6}}
    running = begin(server, **chosen, budgets={"experiment": {"calls": 9}})
    expect(server, running, 3)
    assert len(shards(server, "bounded")) > 1
    assert simulation.calls.total() == 9
    ended = Counter(cell.state for cell in report(server, "bounded").cells)
    assert ended["stopped"] > 0
    expect(server, begin(server, **chosen, budgets={"experiment": {"calls": 900}}))
    assert resolved(server, "bounded") == {"skill-1.0": 6}
    assert set(simulation.calls.values()) == {1}
