"""Lakes and journals of earlier commits are continued, however their model is reached now.

`earlier_lakes/` has two, as `durabench run` left them. Their model was a server like `answer`, at
an address where nothing answers now. In `served`, the attempts at the first instance have ended,
and those at the second were killed after two calls. In `broken`, the server refused the third call,
and the attempts ended as infrastructure.
"""

import os
import re
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from agent.errors import Interrupted
from flows.benchmark import benchmark
from flows.cli.declarations import override
from flows.display.errors import UsageError
from flows.display.terminal import listen
from flows.experiments import declaration
from flows.experiments.cell_state import CellStates
from flows.experiments.declaration import Experiment
from flows.experiments.keys import attempt_id_of
from flows.experiments.plan import Plan, prepare
from flows.storage.journals import open_journal
from flows.storage.lake import Lake
from tests.archives import unpack
from tests.servers import openai_server as api
from tests.servers.openai_server import OpenAIServer

FOLDER = Path(__file__).with_name("earlier_lakes")
V1, V2 = "075bafe", "08d5de0"
"""Commits with the first and with the present version of the durable agent."""

MINI = [("mini", 2), ("mini", 3)]
DURABLE = [("solver", turn) for turn in (2, 3, 4, 5)]
"""The calls that the arms had not made when they were killed. Two had been answered."""

STRICT = [("scout", 0), ("scout", 1)]
"""`strict` may make two more calls than its base `durable`."""

SUBMIT = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT && cat README.md"

pytestmark = [pytest.mark.usefixtures("prefect"), pytest.mark.slow]


@pytest.fixture(autouse=True)
def recorded_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use the folder for temporary files whose path is in the recorded conversations."""
    if os.getuid() != 0:
        pytest.skip("the path has the number of the user who ran the attempts, root")
    monkeypatch.setattr(tempfile, "tempdir", "/tmp")


def answer(body: dict[str, Any]) -> api.Reply:
    """Run three commands, and then submit or give up."""
    role, turn = call_of(body)
    if role == "mini":
        return api.command(f"echo {turn}" if turn < 3 else SUBMIT)
    if turn >= 3:
        return api.text("I have no idea.")
    arguments = f'{{"command": "echo {turn} > made.txt"}}'
    call = {"id": "c", "type": "function"}
    call |= {"function": {"name": "run_command", "arguments": arguments}}
    message = {"role": "assistant", "content": "x", "tool_calls": [call]}
    return api.completion(message, finish_reason="tool_calls")


def call_of(body: dict[str, Any]) -> tuple[str, int]:
    """Return who calls, and the number of its earlier calls in the conversation."""
    tools = {tool["function"]["name"] for tool in body["tools"]}
    role = "mini" if tools == {"bash"} else "solver" if "write" in tools else "scout"
    return role, sum(message["role"] == "assistant" for message in body["messages"])


def copied(commit: str, folder: Path) -> Path:
    unpack(FOLDER / commit / "lake.tar.xz", folder / "lake")
    return folder / "lake"


def declared(commit: str, name: str, *arms: str, **model: Any) -> Experiment:
    """Return a declaration as the command line makes it, with changes of its model."""
    loaded = declaration.load(FOLDER / commit / f"{name}.yaml")
    changed = loaded.model_copy(
        update={
            "model": loaded.model.model_copy(update=model),  # type: ignore[union-attr]
            "arms": [arm for arm in loaded.arms if not arms or arm.name in arms],
        }
    )
    return override(changed)


def reached_at(url: str) -> dict[str, Any]:
    """Return every field of a model that says how it is reached, and what it costs."""
    prices = {"input_cost_per_token": 0.000003, "output_cost_per_token": 0.000004}
    return {
        "api_base": url,
        "timeout_s": 45.0,
        "max_retries": 1,
        "extra": {"timeout": 40},
        **prices,
    }


@pytest.mark.parametrize(
    ("commit", "name", "arms", "missing"),
    [
        (V2, "served", ["mini", "durable", "strict"], [*MINI, *DURABLE, *STRICT]),
        pytest.param(V2, "broken", ["mini", "durable"], [*MINI, *DURABLE], marks=pytest.mark.full),
        pytest.param(V1, "served", ["mini"], MINI, marks=pytest.mark.full),
    ],
)
async def test_only_missing_calls_are_bought_from_a_model_that_moved(
    commit: str,
    name: str,
    arms: list[str],
    missing: list[tuple[str, int]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Ended attempts are done, and killed and broken ones continue under their ids, although
    address, timeout, retries and prices differ; a derived arm reuses the calls of its base."""
    monkeypatch.setenv("OPENAI_API_KEY", "local")
    lake = Lake.existing(copied(commit, tmp_path))
    before = {attempt.attempt_id for attempt in open_journal(lake).find("")}
    with OpenAIServer(answer) as server:
        now = declared(commit, name, *arms, **reached_at(server.url))
        await benchmark(now, str(lake.root))
        assert Counter(map(call_of, server.requests)) == Counter(missing)
        await benchmark(now, str(lake.root))
        assert len(server.requests) == len(missing)
    after = {attempt.attempt_id for attempt in open_journal(lake).find("")}
    cells = (await prepare(now, str(lake.root))).cells
    begun = {attempt_id_of(cell) for cell in cells} - before
    assert after - before == begun
    assert len(begun) == ("strict" in arms)  # its second cell had not begun
    assert None not in CellStates(lake).results(cells, grade=True)


async def test_attempts_by_an_earlier_version_are_refused(tmp_path: Path) -> None:
    """Attempts by the first version of the durable agent, ended or not, are recognised by what the
    journal recorded, and refused in one line before anything is bought."""
    lake = copied(V1, tmp_path)
    with OpenAIServer(answer) as server, pytest.raises(UsageError) as refused:
        await benchmark(declared(V1, "served", **reached_at(server.url)), str(lake))
    assert re.search(r"by version 1 of the durable agent.* another name", str(refused.value))
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("changes", "told", "of_strict"),
    [
        ({"model": {"extra": {"extra_headers": {"a": "secret"}}}}, "model.extra.extra_headers", ""),
        ({"seed": 4}, "seed 0 -> 4", "its base durable"),
    ],
)
async def test_the_screen_says_what_a_changed_declaration_buys_again(
    changes: dict[str, Any],
    told: str,
    of_strict: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Before anything is bought, a line for each arm has the number of its cells, and the fields
    with both values, shortened and without the content of any header."""
    said: list[str] = []
    listen(said.append)
    monkeypatch.setattr("flows.benchmark.Announcements.of", stopped)
    content = declared(V2, "served").model_dump(mode="json")
    with OpenAIServer(answer) as server:
        model = content["model"] | {"api_base": server.url} | changes.get("model", {})
        changed = declaration.parse({**content, **changes, "model": model}, "test")
        with pytest.raises(Interrupted):
            await benchmark(changed, str(copied(V2, tmp_path)))
    assert all(len(line) < 160 and "secret" not in line for line in said)
    # A process says once what it found about a model.
    again = [line for line in said if "bought again" in line]
    assert [line.split(": ")[0] for line in again] == [
        "2 cells of arm mini with earlier attempts are bought again",
        "2 cells of arm durable with earlier attempts are bought again",
        "1 cell of arm strict with earlier attempts is bought again",
    ]
    assert all(told in line for line in again[:2])
    assert (of_strict or told) in again[2]


async def stopped(plan: Plan) -> None:
    """Stop a run as soon as it is planned."""
    raise Interrupted("nothing is to be bought")
