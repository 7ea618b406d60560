"""A nightly schedule with declared gates: its history, its exit codes and its event."""

from pathlib import Path

import pytest
import yaml

from flows.server import events
from tests.flows.conftest import trial
from tests.flows.server.test_events import latest, told
from tests.servers.prefect_server import PrefectServer

pytestmark = [pytest.mark.full, pytest.mark.slow]

DAYS = range(4, 8)
REGRESSED = (5, 6)
"""The days on which the arm changes nothing."""


def name_of(day: int) -> str:
    """Return the name of the run of a day."""
    return f"nightly-2026030{day}t020000"


def run(server: PrefectServer, folder: Path, day: int) -> int:
    """Run one night. Return the exit code."""
    name = name_of(day)
    agent = "null" if day in REGRESSED else "gold"
    declared = trial(
        name=name,
        primary=None,
        arms=[{"name": "mini", "agent": agent}, {"name": "gold", "agent": "gold"}],
        gates={"mini": {"resolved": ">= 0.6"}},
    )
    path = folder / "experiment.yaml"
    path.write_text(yaml.safe_dump(declared.model_dump(mode="json")))
    done = server.run("durabench", "run", str(path), "--lake", str(folder / "lake"))
    assert ("mini: resolved is 0.0 %, not >= 0.6" in done.stderr) == (day in REGRESSED), done.stderr
    return done.returncode


def test_a_regression_on_day_five(prefect_server: PrefectServer, tmp_path: Path) -> None:
    """The runs with the regression fail, it is announced once, when it appears, and the history
    shows it."""
    names = [name_of(day) for day in DAYS]
    codes = {day: run(prefect_server, tmp_path, day) for day in DAYS}
    assert {day for day, code in codes.items() if code} == set(REGRESSED)
    assert set(codes.values()) == {0, 1}
    assert run(prefect_server, tmp_path, REGRESSED[0]) == 1  # all its cells are done

    announced = []
    for day, name in zip(DAYS, names, strict=True):
        times = 2 if day == REGRESSED[0] else 1
        found = told(prefect_server, name, events.FINISHED, times)
        announced += [event for event in found if event["event"] == events.REGRESSION]
    [event] = announced
    assert event["resource"]["prefect.resource.name"] == name_of(REGRESSED[0])
    assert event["payload"]["failed"] == ["mini: resolved is 0.0 %, not >= 0.6"]

    table = latest(prefect_server, "history", "nightly", tmp_path)["data"]
    rates = [line.split(" | ")[4] for line in table.splitlines() if " | mini | " in line]
    # the latest first
    assert rates == ["100.0 %", "0.0 %", "0.0 %", "100.0 %"]
    shown = prefect_server.run("durabench", "history", names[2], "--lake", str(tmp_path / "lake"))
    assert shown.returncode == 0, shown.stderr
    page = (tmp_path / "lake" / "reports" / "nightly" / "history.html").read_text()
    assert "<svg" in page
    assert all(name in page for name in names)
