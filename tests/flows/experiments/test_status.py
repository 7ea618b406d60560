"""Progress of an experiment, from the lake and from the journal while attempts are running."""

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from agent.journal import Attempt, Journal, Lease, NewStep, Reservation, holding
from agent.workspaces import ownership
from flows.cli.app import app
from flows.experiments import status
from flows.storage.journals import open_journal
from flows.storage.lake import Lake
from tests.reports.lake_fixture import NOON, LakeBuilder

IDS = [f"durabench__a-long-name-of-a-repository-{n}" for n in range(6)]
DEAD = f"{ownership.owner()}/1-0"
"""A worker of this machine whose process has ended."""


@pytest.fixture
def built(tmp_path: Path) -> LakeBuilder:
    """Return a lake with an arm of six cells: done, running, killed, interrupted, stopped by a
    budget, and not begun."""
    lake = LakeBuilder(tmp_path / "lake")
    lake.declare(["able"], IDS)
    journal = open_journal(Lake.existing(lake.root))
    lake.cell("able", IDS[0], attempt_id="done")
    unfinished = {"model_calls": 1, "cost_usd": 0.25, "billed_usd": 0.25}
    for number, outcome in ((3, "interrupted"), (4, "budget_stop")):
        columns = {"attempt_id": outcome, "outcome": outcome, "detail": "for a reason"}
        lake.attempt("able", IDS[number], **columns, **unfinished)
    worked_on(journal, "running-with-a-long-id", IDS[1], holding.worker())
    worked_on(journal, "killed", IDS[2], DEAD)
    for number, outcome in ((3, "interrupted"), (4, "budget_stop")):
        journal.release(worked_on(journal, outcome, IDS[number], holding.worker()))
    return lake


def worked_on(journal: Journal, attempt_id: str, instance_id: str, worker: str) -> Lease:
    """Start an attempt with an answered call for $0.25 and an unanswered one for up to $1. Return
    its lease."""
    journal.start(Attempt(attempt_id, "trial", "able", instance_id, 0, "{}"))
    lease = journal.acquire(attempt_id, worker, 60)
    for seq in range(2):
        journal.intend(lease, NewStep("", seq, "model", "d", b"{}"), Reservation(1.0, ()))
    journal.record(lease, "", 0, b"{}", cost_usd=0.25, duration_s=0.1, tree=None)
    return lease


def asked(lake: LakeBuilder, *arguments: str) -> Result:
    result = CliRunner().invoke(app, ["status", *arguments, "--lake", str(lake.root)])
    assert result.exit_code == 0, result.output
    return result


def as_json(lake: LakeBuilder, *arguments: str) -> Any:
    """Return everything that the command prints, parsed as JSON."""
    return json.loads(asked(lake, *arguments, "--json").stdout)


def test_a_cell_that_waits_for_its_model_says_why(built: LakeBuilder) -> None:
    """Until its next step, with the time of the next try."""
    journal = open_journal(Lake.existing(built.root))
    lease = journal.acquire("running-with-a-long-id", holding.worker(), 60)
    journal.note_retry(lease, "try 3 of 9 failed: timeout: no answer", 30.0)
    [cell] = [cell for cell in as_json(built, "trial")["cells"] if cell["retry"]]
    assert (cell["instance_id"], cell["retry"][:12]) == (IDS[1], "try 3 of 9 f")
    assert 0 < cell["retry_in_s"] <= 30
    assert (
        "try 3 of 9 failed: timeout: no answer; the next one is in " in asked(built, "trial").stdout
    )
    queue = journal.queue("run")
    queue.add(["running-with-a-long-id", "killed"])
    assert queue.retries() == {"running-with-a-long-id": "try 3 of 9 failed: timeout: no answer"}
    journal.intend(lease, NewStep("", 2, "command", "d", b"{}"))
    assert not any(cell["retry"] for cell in as_json(built, "trial")["cells"])
    assert queue.retries() == {}


def test_unfinished_attempts_are_shown_from_the_journal(built: LakeBuilder) -> None:
    """State and cost so far of unfinished attempts come from the journal."""
    told = as_json(built, "trial")
    cells = {cell["instance_id"]: cell for cell in told["cells"]}
    states = ["done", "running", "killed", "interrupted", "budget_stop", "not_begun"]
    assert [cells[each]["state"] for each in IDS] == states
    for each in IDS[1:5]:
        cell = cells[each]
        assert (cell["calls"], cell["cost_usd"], cell["unanswered_calls"]) == (1, 0.25, 1)
        assert cell["unanswered_usd"] == 1.0
        assert cell["since"] <= cell["last_sign_of_life"]
    assert cells[IDS[5]]["attempt_id"] is None
    assert (told["planned"], told["resolved"], told["calls"]) == (6, 1, 2 + 4)
    assert (told["cost_usd"], told["billed_usd"]) == (0.5 + 4 * 0.25, 4 * 1.25)
    assert told["states"] == dict.fromkeys(status.STATES, 0) | dict.fromkeys(states, 1)
    [arm] = told["arms"]
    assert {name: arm[name] for name in arm if name != "arm"} == {
        name: told[name] for name in arm if name != "arm"
    }


def test_the_json_output_is_documented(built: LakeBuilder) -> None:
    """The documentation of commands lists every field and state of the JSON output."""
    page = (Path(status.__file__).parents[1] / "COMMANDS.md").read_text()
    _, _, section = page.partition("## Status as JSON")
    told, brief = as_json(built, "trial"), as_json(built)
    names = {*told, *told["cells"][0], *told["arms"][0], *brief, *status.STATES}
    assert {name for name in names if f"`{name}`" not in section.partition("\n## ")[0]} == set()


def test_an_attempt_of_another_machine_is_running_until_its_lease_expires(
    built: LakeBuilder,
) -> None:
    """An attempt on another machine, whose process cannot be checked, counts as running until its
    lease expires."""
    journal = open_journal(Lake.existing(built.root))
    lease = worked_on(journal, "elsewhere", IDS[5], "another-machine/1-0")
    assert as_json(built, "trial")["cells"][5]["state"] == "running"
    journal.renew(lease, 0)
    assert as_json(built, "trial")["cells"][5]["state"] == "killed"


def test_nothing_is_cut_in_a_pipe(built: LakeBuilder, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a pipe no line is cut, and other commands accept every id that is shown."""
    monkeypatch.delenv("COLUMNS", raising=False)  # it would apply in a pipe, too
    listed = asked(built, "trial", "--cells").stdout
    assert all(each in listed for each in IDS)
    assert "1 of 6 cells done (1 resolved), 1 running, 1 interrupted, 1 killed" in listed
    [line] = [line for line in listed.splitlines() if IDS[1] in line]
    shown = line.split()[0]
    [own] = as_json(built, shown)["cells"]
    assert own["attempt_id"] == "running-with-a-long-id"
    traced = CliRunner().invoke(app, ["trace", shown, "--lake", str(built.root)])
    assert "no attempt" not in traced.output


def test_without_a_journal_the_figures_are_from_the_lake(tmp_path: Path) -> None:
    """One line says so."""
    lake = LakeBuilder(tmp_path / "lake")
    lake.declare(["able"], IDS[:2])
    lake.cell("able", IDS[0], attempt_id="done", started_at=NOON - timedelta(hours=1))
    note, total, *_ = asked(lake, "trial").stdout.splitlines()
    assert "has no journal" in note
    assert "from the lake" in note
    assert total.startswith("trial: 1 of 2 cells done (1 resolved), 1 not begun; 2 calls, $0.500")
    told = as_json(lake, "trial")
    assert (len(told["notes"]), told["billed_usd"]) == (1, None)
