"""An attempt that is killed at any point resumes there and pays for nothing twice.

The process is killed with SIGKILL right before and right after every journal write and every
command in the workspace, and during every call, once for each such point. Then it is run again.
"""

import asyncio
import re
import signal
import tempfile
from pathlib import Path
from typing import Any

import pytest

from agent.journal import RecordedStep
from flows.experiments.keys import attempt_key
from flows.storage.cleanup import leftovers
from flows.storage.journals import open_journal
from flows.storage.lake import Lake
from tests.durability import crashing
from tests.durability.conftest import CountingServer, NewJournal
from tests.durability.crashing import Setting
from tests.durability.processes import run_attempt

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

_FOLDER = re.compile(r"durabench-\d+-[0-9a-f]{8}-")

CALLS = len(crashing.COMMANDS)


def result(lake: Path, environment: str) -> dict[str, Any]:
    """Return the result of an attempt: patch, last work tree, steps, calls and cost."""
    store = Lake.existing(lake)
    attempt_id = attempt_key(crashing.cell(environment))[:32]
    journal = open_journal(store)
    account = journal.account(attempt_id)
    steps = journal.steps(attempt_id)
    trees = [step.tree for step in steps if step.tree]
    [prediction] = store.find("predictions", attempt_id)
    return {
        "patch": prediction["model_patch"],
        "tree": trees[-1].tree,
        "steps": [(step.seq, step.kind, asked(step)) for step in steps],
        "calls": account.calls_credited,
        "credited": round(account.credited_usd, 9),
        "billed": round(account.billed_usd, 9),
    }


def asked(step: RecordedStep) -> str:
    """Return the request of a step without the workspace's path, which differs for each journal."""
    return _FOLDER.sub("", step.request.decode()).replace(tempfile.gettempdir(), "")


def undisturbed(setting: Setting, environment: str) -> tuple[dict[str, Any], list[str]]:
    """Return the result of an attempt that nothing disturbs, and the points that it passes."""
    assert run_attempt(setting, environment, None) == 0
    expected = result(setting.lake, environment)
    assert expected["calls"] == CALLS
    return expected, crashing.points_passed(setting.lake)


@pytest.mark.parametrize(
    ("environment", "new_journal"),
    [
        ("host", "sqlite"),
        ("host", "postgresql"),
        pytest.param("docker", "sqlite", marks=pytest.mark.docker),
    ],
    indirect=["new_journal"],
)
def test_a_killed_attempt_resumes_where_it_was(
    environment: str,
    new_journal: NewJournal,
    counting: CountingServer,
    tmp_path: Path,
) -> None:
    """A killed attempt resumes to the same patch, tree and steps as an undisturbed one."""
    setting = Setting(tmp_path / "undisturbed", counting.url, new_journal())
    expected, points = undisturbed(setting, environment)
    attempt_id = attempt_key(crashing.cell(environment))[:32]
    for point in points:
        counting.counts.clear()
        setting = Setting(tmp_path / point.replace(" ", "-"), counting.url, new_journal())
        assert run_attempt(setting, environment, point) == -signal.SIGKILL, point
        assert run_attempt(setting, environment, None) == 0, point
        found = result(setting.lake, environment)
        again = sum(counting.counts.values()) - CALLS
        assert found | {"billed": None} == expected | {"billed": None}, point
        assert again in (0, 1), (point, counting.counts)
        lost = round((found["billed"] - found["credited"]) / crashing.COST_USD)
        # A call that was sent but not recorded is billed. One that was only intended may be billed.
        assert again <= lost <= 1, (point, found)
        left = asyncio.run(leftovers(Lake.existing(setting.lake)))
        assert [line for line in left if attempt_id in line] == [], point
