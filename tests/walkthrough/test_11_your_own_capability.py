"""Your own capability: a tool that an agent on the loop may use, and what it is worth."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from eval import instances
from flows.benchmark import benchmark
from flows.cli.app import app
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


PARALLEL = """
import asyncio
await asyncio.gather(*[spawn(agent="reader", task=f"read {number}") for number in range(2)])
"""


@pytest.mark.usefixtures("prefect")
async def test_programs_and_subagents_are_branches_of_one_tree(tmp_path: Path) -> None:
    """Each use has a scope below its program or subagent, and `durabench trace --tree` shows it."""
    script = {
        "loop": [
            {"calls": [{"tool": "run_ptc", "arguments": {"code": PARALLEL}}]},
            {"calls": [{"tool": "answer", "arguments": {"summary": "done", "status": "done"}}]},
        ],
        "reader": [
            {"calls": [{"tool": "read", "arguments": {"path": "pyproject.toml"}}]},
            {"calls": [{"tool": "answer", "arguments": {"summary": "read", "status": "done"}}]},
        ],
    }
    models = {role: {"provider": "scripted", "replies": each} for role, each in script.items()}
    options = {
        "capabilities": ["ptc", "subagents"],
        "subagents": {"kinds": {"reader": {"capabilities": ["look"]}}},
        "roles": models,
    }
    arm = {"name": "loop", "agent": "loop", "model": models["loop"], "options": options}
    content = {
        "name": "tree",
        "environment": "host",
        "select": {"ids": [INSTANCE.instance_id]},
        "arms": [arm],
    }
    await benchmark(declaration.parse(content, "tree.yaml"), str(tmp_path))
    [attempt] = Lake.existing(tmp_path).rows("attempts", "tree")
    asked = ["trace", attempt["attempt_id"], "--tree", "--lake", str(tmp_path)]
    printed = CliRunner().invoke(app, asked, env={"COLUMNS": "160"}).stdout
    parts = ("run_ptc-1", "reader", "read pyproject.toml", "done")
    assert [part for part in parts if part not in printed] == [], printed
    assert printed.count("tool    read pyproject.toml") == 2
