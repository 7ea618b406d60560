"""A small repository with a bug, and a model with scripted answers for each role."""

import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from agent.arms.durable import arm
from agent.arms.durable.options import DurableOptions
from agent.models.chat import tokens
from agent.models.protocol import Message, ModelInfo, ModelReply, ModelRequest, Usage
from agent.session.session import Session
from agent.types import Outcome, Task
from tests.agent.repositories import with_files
from tests.agent.workspaces_on_host import HostWorkspaces

FILES = {
    "calc.py": "def add(a, b):\n    return a - b\n\n\ndef double(a):\n    return 2 * a\n",
    "tests/test_calc.py": (
        "from calc import double\n\n\ndef test_double():\n    assert double(2) == 4\n"
    ),
    "pyproject.toml": '[project]\nname = "calc"\n\n[tool.pytest.ini_options]\npythonpath = ["."]\n',
}
ANCHOR = "tests/test_anchor.py"
ANCHOR_TEXT = "from calc import add\n\n\ndef test_add():\n    assert add(2, 3) == 5\n"
REFERENCE = "\n".join(
    [
        "diff --git a/calc.py b/calc.py",
        "--- a/calc.py",
        "+++ b/calc.py",
        "@@ -1,5 +1,5 @@",
        " def add(a, b):",
        "-    return a - b",
        "+    return a + b",
        " ",
        " ",
        " def double(a):",
        "",
    ]
)
"""The right change."""
TASK = Task("calc-1", "add(2, 3) returns -1.", "HEAD", "")

Use = tuple[str, dict[str, Any]]
"""A tool and its arguments."""
Said = list[Use] | str
"""The tools that a reply calls, or plain text."""
Script = Callable[[int, ModelRequest], Said] | list[Said]
"""A role's replies by number within the scope. The last one is repeated."""

WRITE: Use = ("write", {"path": ANCHOR, "content": ANCHOR_TEXT})
FIX: Use = ("edit", {"path": "calc.py", "old": "return a - b", "new": "return a + b"})
SPOIL: Use = ("edit", {"path": "calc.py", "old": "return a - b", "new": "return a * b"})


def answer(**fields: Any) -> Said:
    return [("answer", fields)]


def report(status: str = "done", confidence: str = "high") -> Said:
    return answer(summary="did it", status=status, confidence=confidence)


def review(verdict: str = "accept", *issues: str) -> Said:
    return answer(reasons=["looked"], issues=list(issues), verdict=verdict)


STEP = {"title": "fix add", "instructions": "add", "targets": ["calc.py"]}


def facts_of(request: ModelRequest) -> dict[str, Any]:
    """Return the facts that a request gives to its role."""
    return dict(request.facts)


def plan(number: int, request: ModelRequest) -> Said:
    """Plan one step while there is work, and end planning once a step was accepted."""
    facts = facts_of(request)
    waits = facts["last_step"] is not None and facts["last_step"]["status"] != "done"
    if facts["completed_steps"] and not waits and not facts["backlog"]:
        return answer(backlog=[], done=True)
    return answer(next_step=STEP, backlog=[], done=False)


HONEST: dict[str, Script] = {
    "contract": [answer(kind="bugfix", goal="add adds", acceptance_criteria=["add(2, 3) is 5"])],
    "brief": [
        answer(
            summary="add subtracts",
            anchor_path=ANCHOR,
            anchor_idea="add(2, 3) is 5",
            round_trip=False,
            regression_tests=["tests/test_calc.py"],
            backlog=["fix add"],
        )
    ],
    "anchor": [
        [("write_new", {"path": ANCHOR, "content": ANCHOR_TEXT})],
        answer(reason="fails", path=ANCHOR, regression_tests=[], reproduced=True),
    ],
    "planner": plan,
    "gatherer": [answer(references=[{"path": "calc.py", "start": 1, "end": 2, "why": "add"}])],
    "implementer": [[FIX], report()],
    "step_reviewer": [review()],
    "final_reviewer": [review()],
}


@dataclass
class RoleModel:
    """A model that answers by role and records the requests."""

    scripts: dict[str, Script]
    native: bool = True
    asked: list[ModelRequest] = field(default_factory=list)

    @property
    def info(self) -> ModelInfo:
        return ModelInfo("roles", "scripted", self.native)

    def ceiling_usd(self, request: ModelRequest) -> float:
        return 0.01

    async def complete(self, request: ModelRequest) -> ModelReply:
        self.asked.append(request)
        script = self.scripts[request.role]
        if callable(script):
            said = script(request.number, request)
        else:
            said = script[min(request.number, len(script) - 1)]
        usage = Usage(input_tokens=tokens(request.messages), output_tokens=10, cost_usd=0.01)
        return ModelReply(self._message(said, request), usage, "declared", "roles")

    def _message(self, said: Said, request: ModelRequest) -> Message:
        if isinstance(said, str):
            return {"role": "assistant", "content": said}
        if self.native:
            calls = [
                {
                    "id": f"call_{request.number}_{index}",
                    "type": "function",
                    "function": {"name": name, "arguments": json.dumps(arguments)},
                }
                for index, (name, arguments) in enumerate(said)
            ]
            return {"role": "assistant", "content": "", "tool_calls": calls}
        [(name, arguments)] = said
        block = json.dumps({"tool": name, "arguments": arguments})
        return {"role": "assistant", "content": f"Next:\n```json\n{block}\n```"}

    def roles(self) -> list[str]:
        """Return the roles that were asked, in order."""
        return [request.role for request in self.asked]

    def told(self, role: str) -> str:
        """Return all messages of a role's last request as text."""
        return str([request.messages for request in self.asked if request.role == role][-1])


@dataclass
class Solved:
    """An attempt's outcome, session and model."""

    outcome: Outcome
    session: Session
    model: RoleModel

    @property
    def report(self) -> dict[str, Any]:
        assert self.outcome.report is not None
        return self.outcome.report


Solver = Callable[..., Awaitable[Solved]]


QUICK = f"python -IS {Path(__file__).with_name('quick_runner.py')} {{paths}}"
"""Runs plain test functions without pytest, whose start takes longer than everything else."""


@pytest.fixture
def solve() -> Solver:
    """Return a function that runs the durable arm on the host.

    Roles that are not given follow the honest script, and `files` are added to the repository. Its
    tests are run by the quick runner, or by pytest if `with_pytest` is True.
    """

    async def run(
        *,
        native: bool = True,
        preset: str = "full",
        profile: Any = None,
        limits: Any = None,
        files: Mapping[str, str] = MappingProxyType({}),
        limit_s: float | None = None,
        with_pytest: bool = False,
        model: type[RoleModel] = RoleModel,
        task: Task = TASK,
        **roles: Script,
    ) -> Solved:
        answering = model({**HONEST, **roles}, native)
        runner = {} if with_pytest else {"test_command": QUICK}
        declared = {"preset": preset, **runner, **(profile or {})}
        options = DurableOptions.model_validate(
            {"profile": declared, "time_limit_s": limit_s, **(limits or {})}
        )
        workspaces = HostWorkspaces(with_files({**FILES, **files}))
        async with Session.start(
            attempt_id="attempt", models={"": answering}, workspaces=workspaces, limit_s=limit_s
        ) as session:
            return Solved(await arm.solve(task, session, options), session, answering)

    return run
