"""A toolbox offers a role its tools, and answers misuse with text instead of exceptions."""

import asyncio
import json
import time
from pathlib import PurePosixPath

import pytest
from pydantic import TypeAdapter

from agent.arms.durable.roles import TOOLS as TOOLS_OF_ROLES
from agent.errors import Destroyed
from agent.runners import TestRunner
from agent.tools import Toolbox, ToolResult, ToolSettings, render
from agent.workspaces import Workspace
from tests.agent.commands import sh


@pytest.mark.parametrize("role", TOOLS_OF_ROLES)
def test_schemas_are_function_definitions(role: str) -> None:
    """Each with a name, a sentence, and closed parameters that can be sent as JSON."""
    schemas = Toolbox(TOOLS_OF_ROLES[role]).schemas()
    assert [schema["function"]["name"] for schema in schemas] == list(TOOLS_OF_ROLES[role])
    for schema in json.loads(json.dumps(schemas)):
        assert schema["type"] == "function"
        assert schema["function"]["description"].endswith(".")
        parameters = schema["function"]["parameters"]
        assert parameters["type"] == "object"
        assert parameters["additionalProperties"] is False
        assert "title" not in json.dumps(schema)


def test_only_some_roles_write() -> None:
    """Whoever reviews or plans has nothing to change files with."""
    writing = {"write", "write_new", "edit", "apply_patch", "run_tests", "run_command"}
    assert writing & set(TOOLS_OF_ROLES["anchor"]) == {"write_new", "run_tests"}
    assert not writing & {*TOOLS_OF_ROLES["planner"], *TOOLS_OF_ROLES["gatherer"]}


@pytest.mark.parametrize(
    ("name", "arguments", "reason"),
    [
        ("delete", {}, "there is no tool 'delete' here; the tools are: read, search"),
        ("write_new", {"path": "x", "content": ""}, "there is no tool 'write_new' here"),
        ("read", {}, "wrong arguments of read: path: Field required"),
        ("read", {"path": 7}, "path: Input should be a valid string"),
        ("read", {"path": "x", "line": 1}, "line: Extra inputs are not permitted"),
        ("read", "{'path': 'x'}", "wrong arguments of read: not a JSON object"),
        ("read", '["x"]', "wrong arguments of read: Input should be a valid dictionary"),
        ("read", "[" * 100_000, "wrong arguments of read: not a JSON object"),
        ("read", '{"path": "a\\u0000b"}', "NUL characters and lone surrogates"),
        ("write", '{"path": "x", "content": "\\ud800"}', "NUL characters and lone surrogates"),
        ("run_tests", {"paths": []}, "paths: List should have at least 1 item"),
        ("run_tests", {"paths": ["\udc00"]}, "NUL characters and lone surrogates"),
        ("run_tests", {"paths": "tests"}, "paths: Input should be a valid list"),
    ],
)
async def test_misuse_is_told(
    host: Workspace,
    implementer: Toolbox,
    name: str,
    arguments: dict[str, object] | str,
    reason: str,
) -> None:
    """What is wrong and what would be right; nothing happened."""
    result = await implementer.use(host, name, arguments)
    assert not result.ok
    assert reason in result.output
    assert await host.changes() == []


async def test_arguments_may_be_json(host: Workspace, implementer: Toolbox) -> None:
    """As models send them."""
    assert (await implementer.use(host, "read", '{"path": "tox.ini", "end": null}')).ok


async def test_a_result_can_be_recorded(host: Workspace, implementer: Toolbox) -> None:
    """It comes back from JSON as it was, odd names and bytes included."""
    command = "printf '\\377'; echo >$'src/\\351'; echo >$'tests/\\351'; exit 3"
    result = await implementer.use(host, "run_command", {"command": command})
    assert (result.ok, result.exit_code) == (False, 3)
    assert (result.changed, result.put_back) == (["src/?"], ["tests/?"])
    adapter = TypeAdapter(ToolResult)
    assert adapter.validate_json(adapter.dump_json(result)) == result


async def test_a_command_that_does_not_end(host: Workspace) -> None:
    """Is ended at its timeout, with what it said so far, and its changes are seen."""
    tools = Toolbox(["run_command"], settings=ToolSettings(command_timeout_s=1))
    command = "echo began; echo >tests/test_new.py; sleep 1234"
    result = await tools.use(host, "run_command", {"command": command})
    assert (result.ok, result.exit_code) == (False, 124)
    assert result.output.startswith("began\n")
    assert "took longer than 1 s and was ended" in result.output
    assert result.put_back == ["tests/test_new.py"]


async def test_ten_megabytes_of_output(host: Workspace, implementer: Toolbox) -> None:
    """Two are kept, and ten thousand characters of them are shown."""
    command = "echo first; head -c 10000000 /dev/zero | tr '\\0' x; echo; echo last"
    start = time.monotonic()
    result = await implementer.use(host, "run_command", {"command": command})
    shown = render(result)
    assert time.monotonic() - start < 30
    assert 2 * 2**20 <= len(result.output) < 2 * 2**20 + 100
    assert len(shown) < 10_100
    assert "first\n" in shown
    assert f"\nlast\n[the whole output is in {result.artifact}]" in shown
    assert "left out" in shown


async def test_what_is_too_long_for_a_prompt_is_in_a_file(host: Workspace) -> None:
    """Commands can look into it; it is no part of the repository, and short outputs have none."""
    tools = Toolbox(["run_command", "run_tests"])
    long = await tools.use(host, "run_command", {"command": "seq 1 9999"})
    assert not PurePosixPath(long.artifact).is_relative_to(host.root)
    found = await tools.use(host, "run_command", {"command": f"sed -n 5000p {long.artifact}"})
    assert (found.output, found.artifact) == ("5000\n", "")
    assert await host.changes() == []
    again = await tools.use(host, "run_command", {"command": "seq 1 9999"})
    assert again == long


async def test_who_runs_no_commands_has_no_file(host: Workspace) -> None:
    """Nobody is told of what cannot be reached."""
    tools = Toolbox(
        ["run_tests"], settings=ToolSettings(runner=TestRunner("seq 1 9999; : {paths}"))
    )
    result = await tools.use(host, "run_tests", {"paths": ["tests"]})
    assert len(result.output) > 40_000
    assert "whole output" not in render(result)


@pytest.mark.docker
async def test_a_thousand_processes(fresh_container: Workspace, implementer: Toolbox) -> None:
    """They end with their command, a fork bomb as well, and the tools go on working."""
    many = "echo >tests/test_new.py; for i in {1..2000}; do sleep 1234 & done"
    bomb = "echo >tests/test_new.py; f() { f | f & }; f; sleep 1"
    for command in (many, bomb):
        result = await implementer.use(fresh_container, "run_command", {"command": command})
        assert result.put_back == ["tests/test_new.py"]
        assert "sleep 1234" not in await sh(
            fresh_container, "cat /proc/[0-9]*/cmdline | tr '\\0' ' '"
        )
        assert (await implementer.use(fresh_container, "read", {"path": "tox.ini"})).ok


async def test_a_destroyed_repository_passes_through(host: Workspace, implementer: Toolbox) -> None:
    """Whoever holds the workspace has to give it up; no tool can repair it."""
    with pytest.raises(Destroyed, match="not a git repository any more"):
        await implementer.use(host, "run_command", {"command": "rm -rf .git"})


async def test_uses_at_once_wait_for_each_other(host: Workspace, implementer: Toolbox) -> None:
    """Reading twice at a time gives two answers."""
    first, second = await asyncio.gather(
        implementer.use(host, "read", {"path": "tox.ini"}),
        implementer.use(host, "read", {"path": "setup.cfg"}),
    )
    assert ("[tox]" in first.output, "[metadata]" in second.output) == (True, True)
