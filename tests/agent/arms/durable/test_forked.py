"""A fork of a durable attempt is what a fresh run with the change would be, with its steps."""

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from agent.arms.durable import arm, review
from agent.arms.durable.options import DurableOptions
from agent.conversation.conversation import prompt_beside
from agent.journal import Attempt, Journal, RecordedStep
from agent.journal.blobs import Blobs
from agent.journal.holding import hold_lease
from agent.models.protocol import ModelInfo, ModelReply, ModelRequest
from agent.session.log import JournalLog
from agent.session.reuse import Origins, Reuse, Rules
from agent.session.session import Session
from agent.session.steps import encode
from agent.types import Outcome
from tests.agent.arms.durable.conftest import FILES, HONEST, QUICK, TASK, RoleModel
from tests.agent.arms.durable.conftest import review as said
from tests.agent.repositories import with_files
from tests.agent.workspaces_on_host import HostWorkspaces

pytestmark = [pytest.mark.slow]


@dataclass
class Recorded:
    """A model whose answers are recorded by request. Without `inner` it has no others."""

    name: str
    record: dict[str, ModelReply]
    inner: RoleModel | None
    asked: list[str] = field(default_factory=list)

    @property
    def info(self) -> ModelInfo:
        return ModelInfo("roles", "scripted", True)

    def ceiling_usd(self, request: ModelRequest) -> float:
        return 0.01

    async def complete(self, request: ModelRequest) -> ModelReply:
        asked = [self.name, request.role, request.messages, request.tools]
        key = json.dumps(asked, sort_keys=True)
        self.asked.append(key)
        if key not in self.record:
            assert self.inner is not None, "the fork made no such request"
            self.record[key] = await self.inner.complete(request)
        return self.record[key]


@dataclass(frozen=True)
class Change:
    """The difference of a fork: one of these."""

    models: Mapping[str, str] = field(default_factory=dict)
    """Names of the models by role."""
    profile: Mapping[str, Any] = field(default_factory=dict)
    prompt: str = ""
    """A further sentence of the final reviewer's prompt."""
    edited: str = ""
    """The role whose first reply is another one."""


class Family:
    """Attempts of the full preset in one journal, whose workspaces have one path."""

    def __init__(self, folder: Path) -> None:
        self.journal = Journal.open(f"sqlite:///{folder}/journal.sqlite")
        self.record: dict[str, ModelReply] = {}
        self.workspaces = HostWorkspaces(with_files(FILES))
        self._blobs = Blobs(folder / "blobs")

    @asynccontextmanager
    async def _log(self, name: str, rules: Rules | None) -> AsyncIterator[JournalLog]:
        parent_id = None if rules is None else "parent"
        self.journal.start(Attempt(name, "e", "a", "i", 0, "{}", parent_id))
        reuse = None if rules is None else Reuse("parent", self.steps("parent"), rules)
        async with hold_lease(self.journal, name) as lease:
            yield JournalLog(self.journal, lease, self._blobs, [], reuse=reuse)

    async def solve(
        self, name: str, change: Change, rules: Rules | None = None, *, recorded: bool = False
    ) -> tuple[Outcome, int]:
        """Run an attempt, a fork of the parent if it has rules. Return how many calls it made.

        A `recorded` one has no other answers than those of the attempts before it.
        """
        names = {"": "common", **change.models}
        scripts = {**HONEST, "final_reviewer": [said("accept", "looks right")]}
        models = {
            role: Recorded(each, self.record, None if recorded else RoleModel(scripts))
            for role, each in names.items()
        }
        profile = {"preset": "full", "test_command": QUICK, **change.profile}
        async with (
            self._log(name, rules) as log,
            Session.start(
                attempt_id=name,
                models=models,
                workspaces=self.workspaces,
                log=log,
                origins=Origins(names, "place"),
            ) as session,
        ):
            outcome = await arm.solve(TASK, session, DurableOptions(profile=profile))
        return outcome, sum(len(model.asked) for model in models.values())

    def steps(self, name: str) -> list[RecordedStep]:
        return self.journal.steps(name)

    def edit(self, role: str) -> Rules:
        """Give the first reply of a role other words, also in the record. Return the rules."""
        key = next(key for key in self.record if json.loads(key)[1] == role)
        reply = self.record[key]
        words = json.dumps(reply.message).replace("return a + b", "return b + a")
        assert json.loads(words) != reply.message
        self.record[key] = replace(reply, message=json.loads(words))
        place = next(
            step.place
            for step in self.steps("parent")
            if json.loads(step.request).get("role") == role
        )
        return Rules(edits={place: encode(self.record[key]).decode()})


CHANGES: dict[str, Change] = {
    "nothing": Change(),
    "another reviewer": Change(models={"final_reviewer": "other"}),
    "another prompt": Change(prompt="Mind the names, too."),
    "another test command": Change(profile={"test_command": f"env LANG=C {QUICK}"}),
    "an edited reply": Change(edited="implementer"),
}


@pytest.mark.full
@pytest.mark.parametrize("kind", CHANGES)
async def test_a_fork_equals_a_fresh_run(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A step is reused if and only if its inputs are the same, and all steps are those of a run.

    The fresh run has the answers of the parent and of the fork by their requests, and no others.
    """
    change, family = CHANGES[kind], Family(tmp_path)
    await family.solve("parent", Change())
    rules = family.edit(change.edited) if change.edited else Rules()
    if change.prompt:
        monkeypatch.setattr(review, "prompt_beside", lambda *given: other_prompt(change, *given))
    family.workspaces.opened.clear()
    outcome, calls = await family.solve("fork", change, rules)
    opened = list(family.workspaces.opened)
    fresh_outcome, fresh_calls = await family.solve("fresh", change, recorded=True)
    parent, fork, fresh = (by_place(family.steps(name)) for name in ("parent", "fork", "fresh"))

    assert {place: told(step) for place, step in fork.items()} == {
        place: told(step) for place, step in fresh.items()
    }
    assert outcome == fresh_outcome
    assert outcome.status == "submitted"
    for place, step in fork.items():
        assert step.copied == has_same_inputs(step, parent.get(place)), place
    models = [step for step in fork.values() if step.kind == "model"]
    assert calls == sum(not step.copied for step in models)
    assert fresh_calls == len(models)
    assert (calls == 0) == (kind == "nothing")
    assert (opened == []) == (kind in ("nothing", "another reviewer", "another prompt"))
    assert any(step.copied for step in models)


def other_prompt(change: Change, beside: str, name: str) -> str:
    """Return a prompt of the reviewers, with what a change adds to that of the final one."""
    prompt = prompt_beside(beside, name)
    return f"{prompt}\n{change.prompt}" if name == "review_final" else prompt


def by_place(steps: Sequence[RecordedStep]) -> dict[str, RecordedStep]:
    return {step.place: step for step in steps}


def told(step: RecordedStep) -> Any:
    """Return all of a step that does not depend on the time and the attempt."""
    return step.kind, step.request, step.digest, step.result, step.tree and step.tree.tree


def has_same_inputs(step: RecordedStep, other: RecordedStep | None) -> bool:
    """Return True if a step of the parent had the request and the inputs of another step."""
    if other is None or step.inputs.digest is None:
        return False
    sees_tree = step.kind in ("command", "action")
    return (step.kind, step.request, step.digest, step.inputs.digest, sees_tree and tree(step)) == (
        *(other.kind, other.request, other.digest, other.inputs.digest),
        sees_tree and tree(other),
    )


def tree(step: RecordedStep) -> str:
    assert step.inputs.began_at is not None
    return step.inputs.began_at.tree
