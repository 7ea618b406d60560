"""A nightly schedule with declared gates: its history, its exit codes and its event."""

from pathlib import Path

import pytest
import yaml

from flows.server import events
from tests.flows.conftest import trial
from tests.flows.server.test_events import latest, told
from tests.servers.prefect_server import PrefectServer

pytestmark = [pytest.mark.slow, pytest.mark.sampled(3)]

NIGHTS = [f"nightly-2026030{day}t020000" for day in range(1, 8)]
REGRESSED = NIGHTS[4:6]
"""The runs of day five and six, in which the arm changes nothing."""


def run(server: PrefectServer, folder: Path, name: str) -> int:
    """Run one night. Return the exit code."""
    agent = "null" if name in REGRESSED else "gold"
    declared = trial(
        name=name,
        primary=None,
        arms=[{"name": "mini", "agent": agent}, {"name": "gold", "agent": "gold"}],
        gates={"mini": {"resolved": ">= 0.6"}},
    )
    path = folder / "experiment.yaml"
    path.write_text(yaml.safe_dump(declared.model_dump(mode="json")))
    done = server.run("durabench", "run", str(path), "--lake", str(folder / "lake"))
    assert ("mini: resolved is 0.0 %, not >= 0.6" in done.stderr) == (name in REGRESSED), (
        done.stderr
    )
    return done.returncode


def test_a_regression_on_day_five(prefect_server: PrefectServer, tmp_path: Path) -> None:
    """The runs with the regression fail, it is announced once, when it appears, and the history
    shows it."""
    codes = [run(prefect_server, tmp_path, name) for name in NIGHTS]
    assert codes == [0, 0, 0, 0, 1, 1, 0]
    assert run(prefect_server, tmp_path, REGRESSED[0]) == 1  # all its cells are done

    announced = []
    for name in NIGHTS:
        times = 2 if name == REGRESSED[0] else 1
        found = told(prefect_server, name, events.FINISHED, times)
        announced += [event for event in found if event["event"] == events.REGRESSION]
    [event] = announced
    assert event["resource"]["prefect.resource.name"] == REGRESSED[0]
    assert event["payload"]["failed"] == ["mini: resolved is 0.0 %, not >= 0.6"]

    table = latest(prefect_server, "history", "nightly", tmp_path)["data"]
    rates = [line.split(" | ")[4] for line in table.splitlines() if " | mini | " in line]
    assert rates == [
        "100.0 %",
        "0.0 %",
        "0.0 %",
        *["100.0 %"] * 4,
    ]  # the latest first
    shown = prefect_server.run("durabench", "history", NIGHTS[2], "--lake", str(tmp_path / "lake"))
    assert shown.returncode == 0, shown.stderr
    page = (tmp_path / "lake" / "reports" / "nightly" / "history.html").read_text()
    assert "<svg" in page
    assert all(name in page for name in NIGHTS)
