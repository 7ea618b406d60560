"""An attempt of the durable arm that is killed at any point resumes there, candidates included.

It is killed with SIGKILL before and after journal writes and commands and during calls, at points
spread over the whole attempt and over the time in which two candidates run. Parallel candidates
have no order, so results are compared scope by scope.
"""

import asyncio
import hashlib
import itertools
import json
import re
import signal
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from flows.experiments.keys import attempt_key
from flows.storage.cleanup import leftovers
from flows.storage.journals import open_journal
from flows.storage.lake import Lake
from tests.durability import crashing
from tests.durability.conftest import CountingServer, JsonServer, NewJournal
from tests.durability.crashing import Setting
from tests.durability.first_wrong import TWINS
from tests.durability.processes import run_attempt

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

AT_ONCE = 2
TRIES = 3
"""Attempts to kill each of two candidates at a point that only one of them may pass."""

# Durations of tests, memory addresses, digests of container images, and the part of a host
# workspace's path that depends on the journal.
_VARIES = re.compile(
    r"\bin \d+\.\d+s\b|\b0x[0-9a-f]+\b|sha256:[0-9a-f]{64}|durabench-\d+-[0-9a-f]{8}-"
)


def result(lake: Path, environment: str) -> dict[str, Any]:
    """Return the result of an attempt: outcome with report, steps with work trees, calls, cost."""
    journal = open_journal(Lake.existing(lake))
    attempt_id = attempt_key(crashing.cell(environment, "durable"))[:32]
    account, outcome = journal.account(attempt_id), journal.outcome(attempt_id)
    assert outcome is not None
    ended = json.loads(_same_for_all(outcome))
    return {
        "outcome": ended,
        "steps": {
            (step.scope, step.seq): (
                step.kind,
                _digest(step.request.decode()),
                step.tree and step.tree.tree,
            )
            for step in journal.steps(attempt_id)
        },
        "calls": account.calls_credited,
        "credited": round(account.credited_usd, 9),
        "billed": round(account.billed_usd, 9),
    }


def _digest(request: str) -> str:
    return hashlib.sha256(_same_for_all(request).encode()).hexdigest()


def _same_for_all(text: str) -> str:
    """Return a text without the parts that differ between runs."""
    return _VARIES.sub("", text).replace(tempfile.gettempdir(), "")


def left_behind(setting: Setting, environment: str) -> list[str]:
    """Return the leftovers of the attempt's workspaces, including those of its branches."""
    attempt_id = attempt_key(crashing.cell(environment, "durable"))[:32]
    found = asyncio.run(leftovers(Lake.existing(setting.lake)))
    folders = [path.name for path in Path(tempfile.gettempdir()).glob("durabench-*")]
    return [line for line in [*found, *folders] if attempt_id in line]


def spread(points: Sequence[str], count: int) -> list[str]:
    """Return `count` evenly spread points."""
    return [points[len(points) * index // count] for index in range(count)]


def of_a_twin(point: str) -> bool:
    """Return True if a point belongs to one of the two concurrent candidates."""
    return any(twin in point for twin in TWINS)


def of_the_other(point: str) -> str:
    """Return the point of the other candidate."""
    one, other = TWINS if TWINS[0] in point else reversed(TWINS)
    return point.replace(one, other)


def killed(new: Callable[[], Setting], environment: str, point: str) -> Setting:
    """Return the setting of a new attempt that was killed at a point.

    A write of a candidate takes along what the other has not written yet. So each run passes some
    points of only one candidate, of that which is faster. Then the other's point is taken.
    """
    names = [point, of_the_other(point)] * TRIES if of_a_twin(point) else [point]
    for name in names:
        setting = new()
        if run_attempt(setting, environment, name, "durable") == -signal.SIGKILL:
            return setting
        assert name not in crashing.points_passed(setting.lake)
    raise AssertionError(f"no run passes the point {point!r}")


@pytest.mark.parametrize(
    ("environment", "of_each"), [("host", 8), pytest.param("docker", 3, marks=pytest.mark.docker)]
)
@pytest.mark.parametrize("new_journal", ["sqlite"], indirect=True)
def test_a_killed_attempt_resumes_where_it_was(
    environment: str,
    of_each: int,
    new_journal: NewJournal,
    counting: CountingServer,
    tmp_path: Path,
) -> None:
    """A killed attempt resumes to the same outcome, trees and steps as an undisturbed one."""
    setting = Setting(tmp_path / "undisturbed", counting.url, new_journal())
    assert run_attempt(setting, environment, None, "durable") == 0
    expected, calls = result(setting.lake, environment), counting.counts.copy()
    assert expected["outcome"]["report"]["agent_verdict"] == "accepted"
    assert expected["calls"] == calls.total() == len(calls)
    assert left_behind(setting, environment) == []
    points = crashing.points_passed(setting.lake)
    of_twins = [point for point in points if of_a_twin(point)]
    chosen = [*spread(points, of_each), *spread(of_twins, of_each)]
    numbers = itertools.count()

    def new() -> Setting:
        counting.counts.clear()
        return Setting(tmp_path / f"killed-{next(numbers)}", counting.url, new_journal())

    for point in chosen:
        setting = killed(new, environment, point)
        assert run_attempt(setting, environment, None, "durable") == 0, point
        found = result(setting.lake, environment)
        assert found | {"billed": None} == expected | {"billed": None}, point
        again = counting.counts - calls
        assert calls <= counting.counts, point
        assert again.total() <= (AT_ONCE if of_a_twin(point) else 1), (point, again)
        assert set(again.values()) <= {1}, (point, again)
        lost = round((found["billed"] - found["credited"]) / crashing.COST_USD)
        # A call that was sent but not recorded is billed. One that was only intended may be billed.
        assert again.total() <= lost <= AT_ONCE, (point, found)
        assert left_behind(setting, environment) == [], point


@pytest.mark.parametrize("new_journal", ["sqlite"], indirect=True)
def test_both_calls_that_are_in_flight_are_billed_and_asked_again(
    new_journal: NewJournal, tmp_path: Path
) -> None:
    """A crash during two concurrent calls bills both, and the resumed attempt sends both again."""
    counts: Counter[tuple[str, int]] = Counter()
    asked, may_answer = threading.Event(), threading.Event()

    def answer(call: dict[str, Any]) -> dict[str, str]:
        counts[call["scope"], call["number"]] += 1
        if call["scope"] == TWINS[1]:
            asked.set()
            may_answer.wait(timeout=60)
        if call["scope"] == TWINS[0]:
            asked.wait(timeout=60)
        return {}

    server = JsonServer(answer)
    setting = Setting(tmp_path / "killed", server.url, new_journal())
    # Only paid steps record an intent first, so this is the first call.
    point = f"before record {TWINS[0]} 0"
    assert run_attempt(setting, "host", point, "durable") == -signal.SIGKILL
    assert [counts[twin, 0] for twin in TWINS] == [1, 1]
    may_answer.set()
    assert run_attempt(setting, "host", None, "durable") == 0
    server.close()
    found = result(setting.lake, "host")
    assert {place for place, count in counts.items() if count > 1} == {(t, 0) for t in TWINS}
    assert counts.total() == found["calls"] + AT_ONCE
    assert round((found["billed"] - found["credited"]) / crashing.COST_USD) == AT_ONCE
    assert left_behind(setting, "host") == []
