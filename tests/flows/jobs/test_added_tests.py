"""A job can add tests to an existing file or to a new one, with each arm that edits by itself."""

import json
from typing import Any

import pytest

from flows.jobs import rows
from flows.jobs.body import body
from flows.jobs.job import job
from flows.storage.lake import Lake
from tests.flows.jobs.conftest import FILES, NAME, request
from tests.servers import openai_server as api
from tests.servers.forge import Forge

pytestmark = [pytest.mark.usefixtures("prefect"), pytest.mark.slow]

TEST = "def test_three():\n    assert add(3, 0) == 3\n"
OLD = FILES["test_calc.py"]
EDITS = {
    "existing file": ("edit", {"path": "test_calc.py", "old": OLD, "new": f"{OLD}\n\n{TEST}"}),
    "new file": ("write", {"path": "test_more.py", "content": f"from calc import add\n\n\n{TEST}"}),
}
WORDS = {"status": "done", "confidence": "high", "no_test_because": "the task asks for tests"}


def call(name: str, arguments: dict[str, Any]) -> api.Reply:
    function = {"name": name, "arguments": json.dumps(arguments)}
    calls = [{"id": "call-1", "type": "function", "function": function}]
    message = {"role": "assistant", "content": "", "tool_calls": calls}
    return api.completion(message, finish_reason="tool_calls")


def fill_in(schema: dict[str, Any]) -> dict[str, Any]:
    """Return an answer: the words for its fields, or else any value of their type."""
    empty = {"string": "all", "array": [], "boolean": True, "integer": 1}
    known = {name: WORDS[name] for name in schema["properties"] if name in WORDS}
    required = {name: schema["properties"][name] for name in schema.get("required", ())}
    return {name: empty.get(given.get("type"), "all") for name, given in required.items()} | known


def add_tests(edit: tuple[str, dict[str, Any]]) -> api.Script:
    """Return a model that makes one edit and then answers."""

    def reply(body: dict[str, Any]) -> api.Reply:
        tools = {tool["function"]["name"]: tool["function"] for tool in body["tools"]}
        if edit[0] in tools and not any(turn["role"] == "tool" for turn in body["messages"]):
            return call(*edit)
        return call("answer", fill_in(tools["answer"]["parameters"]))

    return reply


def answer(body: dict[str, Any]) -> api.Reply:
    """Change nothing, and answer."""
    tools = {tool["function"]["name"]: tool["function"] for tool in body["tools"]}
    return call("answer", fill_in(tools["answer"]["parameters"]))


@pytest.mark.parametrize("agent", ["durable", "loop", "staged"])
async def test_a_job_answers_a_question(agent: str, forge: Forge, lake_path: str) -> None:
    """The answer is a comment on the issue, and can be revised. There is no pull request."""
    forge.issues[NAME, 7] = {"title": "Which function adds?", "body": ""}
    source = f"{forge.url}/{NAME}/issues/7"
    with api.OpenAIServer(answer) as server:
        model = {"name": "openai/gpt-5-mini", "api_base": server.url, "max_retries": 0}
        arms = [{"name": "a", "agent": agent, "model": model}]
        job_id = await job(asked := request(arms=arms, task="", source=source), lake_path)
        paid = len(server.requests)
        await job(asked, lake_path)
        assert len(server.requests) == paid <= 6
        revised = await job(
            request(arms=arms, task="And which subtracts?", revises=job_id), lake_path
        )
    lake = Lake.existing(lake_path)
    for row in (rows.find(lake, job_id), rows.find(lake, revised)):
        assert (row["state"], row["verdict"], row["patch"]) == ("done", "not_tested", "")
        assert "### Answer\n\n```text\nall" in body(row, "")
    assert forge.pulls[NAME] == []
    [(number, said)] = forge.said
    assert (number, "### Answer\n\n```text\nall" in said) == (7, True)


@pytest.mark.parametrize("where", EDITS)
@pytest.mark.parametrize("agent", ["durable", "loop", "staged"])
async def test_a_job_adds_a_test(where: str, agent: str, forge: Forge, lake_path: str) -> None:
    """The model is told nothing of hidden tests, and the new test is in the verified patch."""
    forge.commit(NAME, {"AGENTS.md": "Use short names.", "docs/AGENTS.md": "Draw."}, "rules")
    with api.OpenAIServer(add_tests(EDITS[where])) as server:
        model = {"name": "openai/gpt-5-mini", "api_base": server.url, "max_retries": 0}
        arms = [{"name": "a", "agent": agent, "model": model}]
        await job(request(arms=arms, task="Add unit tests for add.", publish="branch"), lake_path)
        prompts = json.dumps(server.requests)
    [row] = Lake.existing(lake_path).all_shared("jobs")
    assert (row["state"], row["verdict"]) == ("done", "nothing_broke")
    assert "+def test_three():" in row["patch"]
    assert "pull request" in prompts
    assert "idden test" not in prompts
    assert prompts.index("AGENTS.md:\\n\\nUse short") < prompts.index("docs/AGENTS.md:\\n\\nDraw.")
    assert "The agents had the rules of `AGENTS.md`, `docs/AGENTS.md`." in body(row, "")
