"""Trajectories: published ones of 1.x, and 2.x ones that the package writes during the test."""

import json
from pathlib import Path

import pytest

from agent.errors import InvalidSpec
from agent.models.trajectory import load
from tests.agent.models.mini_runs import COMMANDS, run
from tests.servers import openai_server as api

CACHED = {
    "prompt_tokens": 1000,
    "completion_tokens": 50,
    "total_tokens": 1050,
    "prompt_tokens_details": {"cached_tokens": 640},
    "completion_tokens_details": {"reasoning_tokens": 30},
}


def test_published_runs_add_up(shared_data: Path) -> None:
    """All calls and commands are read, and the costs of the calls add up to the package's total."""
    paths = sorted((shared_data / "mini_trajectories").glob("*.traj.json"))
    runs = [load(path) for path in paths]
    for path, read in zip(paths, runs, strict=True):
        assert read.instance_id == path.name.removesuffix(".traj.json")
        assert len(read.calls) == read.api_calls
        assert (read.unpriced_calls, read.unattributed_cost_usd) == (0, 0)
        assert {call.cost_source for call in read.calls} == {"provider"}
        assert all(call.usage.input_tokens and call.created_at for call in read.calls)
        assert (read.native_tools, read.action_regex) == (False, r"```bash\s*\n(.*?)\n```")
    assert sum(len(read.calls) for read in runs) == 313
    assert sum(len(read.commands) for read in runs) == 302  # eleven replies had several blocks
    assert all(command.output is not None for read in runs for command in read.commands)
    [read] = [read for read in runs if read.instance_id == "astropy__astropy-7166"]
    assert read.commands[0].command.startswith("ls -R && grep -r")
    assert (read.commands[0].returncode, read.commands[-1].output) == (0, read.submission)


def test_tool_calls_of_2x(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Calls have usage and cost, commands have output and exit code, and the submission is read."""
    replies = [api.command(text, usage=CACHED) for text in COMMANDS]
    read = load(run(tmp_path, replies, monkeypatch))
    assert (read.instance_id, read.exit_status) == ("demo__one", "Submitted")
    assert (read.submission, read.native_tools, read.action_regex) == ("diff\n", True, None)
    assert read.model == "openai/gpt-4o"
    assert read.mini_version.startswith("2.")
    assert len(read.calls) == read.api_calls == 4
    usage = read.calls[0].usage
    assert (usage.input_tokens, usage.cache_read_tokens, usage.reasoning_tokens) == (1000, 640, 30)
    assert {call.cost_source for call in read.calls} == {"litellm"}
    assert read.unattributed_cost_usd == pytest.approx(0)
    assert [command.command for command in read.commands] == COMMANDS
    assert [c.output for c in read.commands] == ["one\n", "two\n", "", "diff\n"]
    assert [c.returncode for c in read.commands] == [0, 1, 0, None]


def test_text_format_of_2x(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fenced blocks are read as commands by the pattern recorded in the trajectory."""
    replies = [api.text(f"THOUGHT: x\n\n```mswea_bash_command\n{c}\n```") for c in COMMANDS]
    read = load(run(tmp_path, replies, monkeypatch, text=True))
    assert (read.native_tools, read.submission) == (False, "diff\n")
    assert read.action_regex == r"```mswea_bash_command\s*\n(.*?)\n```"
    assert [command.command for command in read.commands] == COMMANDS


def test_a_call_can_have_no_command_or_several(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Version 2 keeps a reply without an action in its format error, and its cost is counted."""
    calls = [
        {
            "id": f"call_{text}",
            "type": "function",
            "function": {"name": "bash", "arguments": json.dumps({"command": f"echo {text}"})},
        }
        for text in "ab"
    ]
    both = api.completion({"role": "assistant", "content": None, "tool_calls": calls})
    replies = [api.text("I think."), both, *map(api.command, COMMANDS[2:])]
    read = load(run(tmp_path, replies, monkeypatch))
    assert len(read.calls) == read.api_calls == 4
    assert read.calls[0].message == {"role": "assistant", "content": "I think."}
    assert read.calls[0].usage.input_tokens == 100
    assert read.unattributed_cost_usd == pytest.approx(0)
    assert [(c.call_seq, c.output) for c in read.commands[:2]] == [(1, "a\n"), (1, "b\n")]


@pytest.mark.parametrize(("cost", "source"), [(0.5, "provider"), (None, "unknown")])
def test_the_source_of_a_cost_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cost: float | None, source: str
) -> None:
    """The package writes a cost of 0 if it has no price, which is read as unknown."""
    usage = CACHED if cost is None else {**CACHED, "cost": cost}
    replies = [api.command(text, usage=usage) for text in COMMANDS[2:]]
    read = load(run(tmp_path, replies, monkeypatch, name="openai/nobody-has-this"))
    assert [call.usage.cost_usd for call in read.calls] == [cost, cost]
    assert [call.cost_source for call in read.calls] == [source, source]


def test_a_cost_without_calls_is_unattributed(tmp_path: Path) -> None:
    """A total that the calls do not account for is kept as an unattributed cost."""
    data = {
        "info": {"model_stats": {"instance_cost": 0.75, "api_calls": 1}},
        "messages": [{"role": "assistant", "content": "```bash\nls\n```"}],
        "trajectory_format": "mini-swe-agent-1",
    }
    path = tmp_path / "x.traj.json"
    path.write_text(json.dumps(data))
    read = load(path)
    assert (read.unpriced_calls, read.unattributed_cost_usd) == (1, 0.75)
    assert [command.command for command in read.commands] == ["ls"]


@pytest.mark.parametrize(
    "text",
    [
        None,
        "",
        "{",
        "[]",
        "{}",
        '{"info": {}, "messages": []}',
        '{"info": {}, "messages": [], "trajectory_format": "mini-swe-agent-1.1"}',
        '{"info": {}, "messages": [{"object": "response"}], '
        '"trajectory_format": "mini-swe-agent-1.1"}',
    ],
)
def test_an_invalid_trajectory_is_reported_in_one_line(text: str | None, tmp_path: Path) -> None:
    """The error names the invalid file in one line."""
    path = tmp_path / "x.traj.json"
    if text is not None:
        path.write_text(text)
    with pytest.raises(InvalidSpec) as caught:
        load(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)
