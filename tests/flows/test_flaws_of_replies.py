"""Why attempts fail: what is wrong with the replies of a weak model, wherever that is said."""

import asyncio
import json
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from flows.benchmark import benchmark
from flows.cli.app import app
from flows.display.errors import GateFailed
from flows.experiments.declaration import Experiment
from flows.storage.lake import Lake
from tests.agent.arms.command.programs import tiny
from tests.flows.conftest import SUBMIT, rows, trial
from tests.servers import openai_server as api
from tests.servers.openai_server import OpenAIServer

pytestmark = [pytest.mark.usefixtures("prefect"), pytest.mark.slow]

TOO_LONG = "request (3031 tokens) exceeds the available context size (2048 tokens)"
FLAWS = ("empty_replies", "cut_off_replies", "callless_replies", "repeated_replies")

_numbers = count()


def misbehave(body: dict[str, Any]) -> api.Reply:
    """Answer as the name of the model says."""
    turn = sum(message["role"] == "assistant" for message in body["messages"])
    match body["model"]:
        case "empty":
            return api.text("")
        case "cut":
            return api.text("I think that the", finish_reason="length")
        case "prose":
            return api.text(f"```json\nls\n``` would help, number {next(_numbers)}.")
        case "small":
            return api.error(400, TOO_LONG)
        case "able":
            return SUBMIT
        case _:  # a program sees no fault in two equal commands, and in a result without a call
            return api.command("ls") if turn < 2 else api.text("Done.")


def declare(server: OpenAIServer, arms: dict[str, tuple[str, dict[str, Any]]]) -> Experiment:
    """Return an experiment on one instance. `arms` has agent and options by the model's name."""
    entries = [
        {
            "name": f"{agent}-{name}",
            "agent": agent,
            "options": options,
            "model": {"name": f"openai/{name}", "api_base": server.url, "context_tokens": 32_000},
        }
        for name, (agent, options) in arms.items()
    ]
    return trial(arms=entries, select={"sample": 1}, primary=None)


async def invoke(lake_path: str, *arguments: str) -> Any:
    return await asyncio.to_thread(CliRunner().invoke, app, [*arguments, "--lake", lake_path])


async def test_flaws_are_counted_and_shown_everywhere(lake_path: str) -> None:
    """The counts of each arm are in the lake. Status, trace, diagnosis and report show them."""
    recipe = tiny("chat").model_dump(mode="json")
    arms = {
        "empty": ("loop", {}),
        "cut": ("mini", {}),
        "prose": ("staged", {"limits": {"calls": 4}}),
        "work": ("command", {"recipe": recipe}),
    }
    with OpenAIServer(misbehave) as server:
        await benchmark(declare(server, arms), lake_path)
    attempts = {row["arm"]: row for row in rows_by_arm(lake_path)}
    assert {arm: [row[name] for name in FLAWS] for arm, row in attempts.items()} == {
        "loop-empty": [3, 0, 0, 2],
        "mini-cut": [0, 3, 3, 2],
        "staged-prose": [0, 0, 4, 0],
        "command-work": [0, 0, 0, 1],
    }
    assert attempts["staged-prose"]["outcome"] == "out_of_steps"
    flaws = [call["flaws"] for call in rows(lake_path, "llm_calls")]
    assert flaws.count(["cut_off", "callless", "repeated"]) == 2
    empty, cut = (attempts[name]["attempt_id"] for name in ("loop-empty", "mini-cut"))
    status = (await invoke(lake_path, "status", "trial", "--cells")).stdout
    assert "gave_up: RepeatedFormatError" in status
    assert "3 of 3 replies cut off, 3 without a call, 2 repeated" in status
    told = json.loads((await invoke(lake_path, "status", "trial", "--json")).stdout)
    assert told["cells"][0]["flaws"] == {
        **dict(zip(FLAWS, [3, 0, 0, 2], strict=True)),
        "refused_requests": 0,
    }
    traced = (await invoke(lake_path, "trace", empty)).stdout
    assert traced.count("(empty)") == 3
    assert traced.count("repeated") == 2
    diagnosed = (await invoke(lake_path, "diagnose", cut)).stdout
    assert "Its model: 3 of 3 replies cut off, 3 without a call, 2 repeated." in diagnosed
    assert "Nothing was left to judge" not in diagnosed
    report = (Path(lake_path) / "reports" / "trial" / "report.md").read_text()
    assert "| mini-cut | 3 | 0 | 3 | 3 | 2 | 0 |" in report
    assert "| gave up | – | RepeatedFormatError | 1 |" in report
    shown = await invoke(lake_path, "report", "trial")
    assert shown.exit_code == 0
    assert "no call" in shown.stdout


async def test_an_arm_without_an_answer_is_no_result(lake_path: str) -> None:
    """The run and the report fail and say why, and compare the arm with no other."""
    with OpenAIServer(misbehave) as server:
        declared = declare(server, {"small": ("loop", {}), "able": ("mini", {})})
        with pytest.raises(GateFailed) as failed:
            await benchmark(declared, lake_path, grade=False)
    sentence = (
        f"Arm loop-small got no answer from its model in 1 of 1 cell: context_full: {TOO_LONG}"
    )
    assert str(failed.value).startswith(sentence)
    attempts = {row["arm"]: row for row in rows_by_arm(lake_path)}
    assert attempts["loop-small"]["refused_requests"] > 0
    shown = await invoke(lake_path, "report", "trial")
    assert shown.exit_code == 1
    assert sentence in shown.stdout.replace("\n", " ")
    assert "against" not in shown.stdout
    assert f"**{sentence}.**" in (
        (Path(lake_path) / "reports" / "trial" / "report.md").read_text().replace("\\", "")
    )


def rows_by_arm(lake_path: str) -> list[dict[str, Any]]:
    """Return the rows of `attempts` with their arm."""
    lake = Lake.existing(lake_path)
    return [
        {**row, "arm": arm}
        for experiment, arm, unit in lake.places("attempts", "*")
        for row in lake.read("attempts", experiment, arm, unit)
    ]
