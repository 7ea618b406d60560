"""`durabench grade` on a machine without a Prefect server."""

import json
from pathlib import Path

import pytest
from prefect.filesystems import LocalFileSystem
from prefect.results import ResultStore

from eval import instances
from tests.journeys.command_line import Terminal

pytestmark = pytest.mark.slow

FIRST, SECOND = instances.load("bundled")[:2]


@pytest.fixture
def alone(tmp_path: Path) -> Terminal:
    """Return a terminal of a user who has no Prefect server, and never had one."""
    variables = {"PREFECT_API_URL": "", "PREFECT_HOME": str(tmp_path / "prefect")}
    return Terminal(tmp_path, variables)


async def test_no_server_is_started_and_every_grading_is_kept(
    alone: Terminal, terminal: Terminal
) -> None:
    """A run with a server finds the same verdicts, and runs no test again."""
    predictions = [
        {"instance_id": each.instance_id, "model_name_or_path": "m", "model_patch": each.patch}
        for each in (FIRST, SECOND)
    ]
    (alone.folder / "all_preds.jsonl").write_text("\n".join(map(json.dumps, predictions)))
    grade = ("grade", "all_preds.jsonl", "--name", "foreign", "--audit", "-e", "host")
    printed = alone.durabench(*grade)
    assert "m resolves 2 of 2" in printed
    assert not (alone.folder / "prefect").exists()
    rows = sorted(alone.rows("evaluations"), key=lambda row: row["instance_id"])
    assert [(row["outcome"], row["gradings"]) for row in rows] == [("resolved", 2)] * 2
    for other in (alone, terminal):
        assert "suspect: 0 of 2 resolved patches" in other.durabench(*grade)
        assert sorted(other.rows("evaluations"), key=lambda row: row["instance_id"]) == rows
    results = alone.lake.results
    store = ResultStore(result_storage=LocalFileSystem(basepath=str(results)))
    names = [path.name for path in results.iterdir()]
    assert len(names) == 4
    for name in names:
        assert (await store.aread(name)).result == alone.lake.result(name)
