"""The durable arm with a real model client over real HTTP, with both tool protocols."""

import asyncio
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agent import models
from agent.arms import durable
from agent.arms.durable import arm
from agent.arms.durable.options import DurableOptions, FullProfile, Role
from agent.arms.durable.roles import TOOLS
from agent.models.protocol import Message, ModelReply, ModelRequest
from agent.session.session import Session
from agent.types import Outcome
from tests.agent.arms.durable.conftest import (
    FILES,
    FIX,
    HONEST,
    QUICK,
    STEP,
    TASK,
    RoleModel,
    Said,
    Script,
    answer,
    report,
)
from tests.agent.repositories import with_files
from tests.agent.workspaces_on_host import HostWorkspaces
from tests.servers import openai_server as api

PROMPTS: dict[Role, str] = {
    "contract": "contract",
    "gatherer": "gatherer",
    "brief": "reproduction_brief",
    "anchor": "reproduction_anchor",
    "planner": "planning",
    "implementer": "implementation",
    "step_reviewer": "review_step",
    "final_reviewer": "review_final",
}
"""The prompt with which each role's conversations begin."""

INPUT_USD, OUTPUT_USD = 2e-6, 8e-6

CALLS: dict[Role, int] = {
    "contract": 1,
    "brief": 1,
    "anchor": 2,
    "planner": 2,
    "implementer": 2,
    "step_reviewer": 1,
    "final_reviewer": 1,
}
"""The number of calls by role in an attempt where every role is honest."""


def plan_from_text(number: int, request: ModelRequest) -> Said:
    """Plan one step while there is work, and finish once the prompt lists a completed step."""
    told = request.messages[1]["content"]
    is_done = "## completed_steps" in told and "## backlog" not in told
    return (
        answer(backlog=[], done=True) if is_done else answer(next_step=STEP, backlog=[], done=False)
    )


class Provider:
    """A provider that answers every role by a script and refuses unpaired tool calls."""

    def __init__(self, *, native: bool = True, **roles: Script) -> None:
        folder = Path(durable.__file__).parent
        self._prompts = {
            role: (folder / f"{name}.md").read_text("utf-8") for role, name in PROMPTS.items()
        }
        self._roles = RoleModel({**HONEST, "planner": plan_from_text, **roles}, native)
        self.refused: list[str] = []

    def __call__(self, body: dict[str, Any]) -> api.Reply:
        problem = unpaired(body["messages"])
        if problem:
            self.refused.append(problem)
            return api.error(400, problem)
        said = asyncio.run(self._roles.complete(self.request(body)))
        return api.completion(said.message)

    def request(self, body: dict[str, Any]) -> ModelRequest:
        """Return the request of an HTTP body, with its role."""
        messages = body["messages"]
        number = sum(message["role"] == "assistant" for message in messages)
        tools = body.get("tools", [])
        return ModelRequest(messages, tools, number, self.role(body))

    def role(self, body: dict[str, Any]) -> Role:
        system = body["messages"][0]["content"]
        [role] = [role for role, prompt in self._prompts.items() if system.startswith(prompt)]
        return role


def names(role: Role) -> list[str]:
    """Return the names of the tools that a role is offered."""
    return [*TOOLS[role], *(["gather_context"] if role == "implementer" else []), "answer"]


def unpaired(messages: list[Message]) -> str:
    """Return a provider's error for unpaired tool calls and results, or an empty string."""
    waiting: set[str] = set()
    for message in messages:
        if message["role"] == "tool":
            if message["tool_call_id"] not in waiting:
                return f"a result of {message['tool_call_id']}, which was not called"
            waiting.remove(message["tool_call_id"])
        elif waiting:
            return f"no result of {sorted(waiting)}"
        else:
            waiting = {call["id"] for call in message.get("tool_calls") or []}
    return f"no result of {sorted(waiting)}" if waiting else ""


async def solve(
    server: api.OpenAIServer, *, profile: Any = None, planner: str | None = None, **spec: Any
) -> tuple[Outcome, Session]:
    """Run the arm against the server. `planner` names a model for that role only."""
    priced = {
        "api_base": server.url,
        "input_cost_per_token": INPUT_USD,
        "output_cost_per_token": OUTPUT_USD,
    }
    names = {"": "openai/everybody"} | ({"planner": planner} if planner else {})
    built = {
        role: models.build(models.parse({"name": name, **priced, **spec}), TASK, 0)
        for role, name in names.items()
    }
    options = DurableOptions(
        profile=FullProfile.model_validate({"test_command": QUICK, **(profile or {})})
    )
    async with Session.start(
        attempt_id="attempt", models=built, workspaces=HostWorkspaces(with_files(FILES))
    ) as session:
        return await arm.solve(TASK, session, options), session


def accepted(outcome: Outcome) -> dict[str, Any]:
    """Check that an attempt ended as it should. Return its report."""
    assert outcome.report is not None
    assert outcome.report["agent_verdict"] == "accepted"
    assert outcome.report["reproduced"] is True
    assert "+    return a + b" in outcome.patch
    return outcome.report


def replies(session: Session) -> list[ModelReply]:
    """Return the replies of the models."""
    return [step.result for step in session.steps if isinstance(step.result, ModelReply)]


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "throw-away")


@pytest.fixture
def provider() -> Provider:
    """Return a provider whose implementer calls two tools natively in one reply."""
    both: Said = [("read", {"path": "calc.py"}), FIX]
    return Provider(implementer=[both, report()])


@pytest.fixture
def server(provider: Provider) -> Iterator[api.OpenAIServer]:
    with api.OpenAIServer(provider) as running:
        yield running


async def test_native_tools(server: api.OpenAIServer, provider: Provider) -> None:
    """Each role is offered its own tools and `answer`, and every tool call gets its result."""
    outcome, _ = await solve(server)
    accepted(outcome)
    for body in server.requests:
        offered = [tool["function"]["name"] for tool in body["tools"]]
        assert offered == names(provider.role(body))
    assert provider.refused == []
    [last] = [body for body in server.requests if provider.role(body) == "implementer"][1:]
    results = [message for message in last["messages"] if message["role"] == "tool"]
    assert [result["tool_call_id"] for result in results] == ["call_0_0", "call_0_1"]
    assert "return a - b" in results[0]["content"]


async def test_an_attempt_survives_every_temporary_fault(
    server: api.OpenAIServer, provider: Provider
) -> None:
    """Every failed request is repeated, and the patch and the costs are unaffected."""
    faults = iter(
        [
            api.rate_limited(retry_after="0.1"),
            api.server_error(),
            api.dropped(),
            api.malformed(),
            api.empty_choices(),
        ]
    )
    asked: Counter[str] = Counter()

    def shaky(body: dict[str, Any]) -> api.Reply:
        role = provider.role(body)
        asked[role] += 1
        fault = next(faults, None) if asked[role] == 1 else None
        return fault or provider(body)

    server.script = shaky
    outcome, session = await solve(server)
    usage = accepted(outcome)["usage_by_role"]
    assert {role: of["calls"] for role, of in usage.items()} == CALLS
    assert sum(reply.retries for reply in replies(session)) == 5
    assert sum(asked.values()) == sum(CALLS.values()) + 5
