"""A toolbox offers a role its tools, and answers misuse with text instead of exceptions."""

import json
from pathlib import PurePosixPath

import pytest
from pydantic import TypeAdapter

from agent.errors import Destroyed
from agent.tools import Toolbox, ToolResult, ToolSettings
from agent.tools.toolbox import TOOLS
from agent.workspaces import Workspace
from tests.agent.commands import sh


def test_schemas_are_function_definitions() -> None:
    """Each schema has a name, a description and closed parameters, and can be sent as JSON."""
    schemas = Toolbox(TOOLS).schemas()
    assert [schema["function"]["name"] for schema in schemas] == list(TOOLS)
    for schema in json.loads(json.dumps(schemas)):
        assert schema["type"] == "function"
        assert schema["function"]["description"].endswith(".")
        parameters = schema["function"]["parameters"]
        assert parameters["type"] == "object"
        assert parameters["additionalProperties"] is False
        assert "title" not in json.dumps(schema)


MISUSES: list[tuple[str, dict[str, object] | str, str]] = [
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
]


async def test_misuse_is_explained(host: Workspace, implementer: Toolbox) -> None:
    """A wrong call changes nothing, and its answer says what is wrong and what is expected."""
    for name, arguments, reason in MISUSES:
        result = await implementer.use(host, name, arguments)
        assert not result.ok
        assert reason in result.output
    assert await host.changes() == []
    assert (await implementer.use(host, "read", '{"path": "tox.ini", "end": null}')).ok


async def test_a_result_can_be_recorded(host: Workspace, implementer: Toolbox) -> None:
    """A result survives a round trip through JSON, even with odd file names and bytes."""
    command = "printf '\\377'; echo >$'src/\\351'; echo >$'tests/\\351'; exit 3"
    result = await implementer.use(host, "run_command", {"command": command})
    assert (result.ok, result.exit_code) == (False, 3)
    assert (result.changed, result.put_back) == (["src/?"], ["tests/?"])
    adapter = TypeAdapter(ToolResult)
    assert adapter.validate_json(adapter.dump_json(result)) == result


async def test_a_command_that_does_not_end(host: Workspace) -> None:
    """A command that reaches its timeout is ended, and the result has its output so far."""
    tools = Toolbox(["run_command"], settings=ToolSettings(command_timeout_s=1))
    command = "echo began; echo >tests/test_new.py; sleep 1234"
    result = await tools.use(host, "run_command", {"command": command})
    assert (result.ok, result.exit_code) == (False, 124)
    assert result.output.startswith("began\n")
    assert "took longer than 1 s and was ended" in result.output
    assert result.put_back == ["tests/test_new.py"]


async def test_output_that_is_too_long_for_a_prompt_is_in_a_file(host: Workspace) -> None:
    """A long output is stored in a file outside the repository that later commands can read."""
    tools = Toolbox(["run_command", "run_tests"])
    long = await tools.use(host, "run_command", {"command": "seq 1 9999"})
    assert not PurePosixPath(long.artifact).is_relative_to(host.root)
    found = await tools.use(host, "run_command", {"command": f"sed -n 5000p {long.artifact}"})
    assert (found.output, found.artifact) == ("5000\n", "")
    assert await host.changes() == []
    again = await tools.use(host, "run_command", {"command": "seq 1 9999"})
    assert again == long


@pytest.mark.docker
async def test_a_thousand_processes(fresh_container: Workspace, implementer: Toolbox) -> None:
    """Thousands of processes, even a fork bomb, end with the command that started them."""
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
    """Destroying the repository raises an error, because no tool can repair it."""
    with pytest.raises(Destroyed, match="not a git repository any more"):
        await implementer.use(host, "run_command", {"command": "rm -rf .git"})
