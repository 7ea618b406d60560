"""Your own capability: a tool that an agent on the loop may use, and what it is worth."""

from pathlib import Path

import pytest

from eval import instances
from flows.benchmark import benchmark
from flows.experiments import declaration
from flows.storage.lake import Lake

INSTANCE = instances.load(instances.BUNDLED)[0]

REPLIES = [
    {
        "calls": [
            {"tool": "count_lines", "arguments": {"folder": "nowhere"}},
            {"tool": "run_ptc", "arguments": {"code": "int(await count_lines()) > 10"}},
            {"tool": "apply_patch", "arguments": {"patch": INSTANCE.patch}},
        ]
    },
    {"calls": [{"tool": "answer", "arguments": {"summary": "done", "status": "done"}}]},
]


@pytest.mark.usefixtures("prefect")
async def test_your_own_capability_is_one_more_line(tmp_path: Path) -> None:
    """Direct uses and those of programs are steps, and the model reads a refusal."""
    own = "tests.walkthrough.own_capability:LINES"
    experiment = declaration.parse(
        {
            "name": "own",
            "environment": "host",
            "select": {"ids": [INSTANCE.instance_id]},
            "model": {"provider": "scripted", "replies": REPLIES},
            "arms": [
                {
                    "name": "loop-lines",
                    "agent": "loop",
                    "options": {"capabilities": ["files", "ptc", own]},
                }
            ],
        },
        "own.yaml",
    )
    await benchmark(experiment, str(tmp_path))
    lake = Lake.existing(tmp_path)
    [verdict] = lake.rows("evaluations", "own")
    uses = [row for row in lake.rows("steps", "own") if "count_lines" in row["request"]]
    places = sorted(row["scope"] for row in uses if row["kind"] == "action")
    assert (verdict["resolved"], places) == (True, ["work", "work/run_ptc-1/0"])
    assert "there is no Python in nowhere" in str(uses)
