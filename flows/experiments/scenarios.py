"""Scripted attempts of the loop arm, which show what its capabilities leave on record."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ConfigDict, Field

from agent.errors import Interrupted
from agent.journal import Journal
from agent.models.patches import parse as files_of
from agent.session.steps import Step
from agent.types import Outcome
from eval import instances
from eval.types import Instance
from flows.errors import UsageError
from flows.experiments import declaration, records
from flows.experiments.cells import Cell
from flows.experiments.directly import solved
from flows.experiments.keys import attempt_id_of
from flows.experiments.plan import prepare
from flows.storage.journals import open_journal
from flows.storage.lake import Lake

FOLDER = Path(__file__).parent / "scenarios"

NAMES = ("direct", "ptc", "subagents", "nested", "retry", "validation", "terminal", "cancel")


class Scenario(BaseModel):
    """One scripted attempt."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    tells: str = Field(description="what it shows")
    capabilities: list[str]
    subagents: dict[str, Any] = Field(default_factory=dict)
    replies: dict[str, list[dict[str, Any]]] = Field(description="replies by role")
    stop_after: int | None = Field(default=None, description="steps before the operator stops")


@dataclass(frozen=True)
class Shown:
    """The end of a scripted attempt."""

    tells: str
    attempt_id: str
    outcome: Outcome
    stopped_after: int | None
    """Model calls on record when the operator stopped; None without a stop."""

    @property
    def files(self) -> list[str]:
        """The files that it left changed."""
        return sorted({path for file in files_of(self.outcome.patch) for path in file.paths})


def load(name: str) -> Scenario:
    """Return a scenario by its name.

    Raises:
        UsageError: there is none of that name.
    """
    if name not in NAMES:
        raise UsageError(f"there is no scenario {name!r}: name one of {', '.join(NAMES)}, or all")
    return Scenario.model_validate(yaml.safe_load((FOLDER / f"{name}.yaml").read_text()))


def instance() -> Instance:
    """Return the bundled instance of all scenarios."""
    return instances.load(instances.BUNDLED)[0]


async def run(name: str, lake_path: str | None, environment: str | None) -> Shown:
    """Run a scenario as a new attempt, without Prefect and without grading.

    Raises:
        UsageError: the scenario or the environment is not available.
    """
    scenario = load(name)
    plan = await prepare(_declared(name, scenario, environment).afresh(), lake_path)
    cell = plan.cells[0]
    attempt_id = attempt_id_of(cell)
    journal = open_journal(plan.lake)
    journal.start(records.journaled(cell, attempt_id))
    stopped_after = None
    if scenario.stop_after is not None:
        with suppress(Interrupted):
            await _solve(cell, plan.lake, journal, attempt_id, scenario.stop_after)
        stopped_after = sum(step.kind == "model" for step in journal.steps(attempt_id))
    outcome = await _solve(cell, plan.lake, journal, attempt_id, None)
    return Shown(scenario.tells, attempt_id, outcome, stopped_after)


def _declared(name: str, scenario: Scenario, environment: str | None) -> declaration.Experiment:
    """Return a scenario as an experiment of one cell."""
    script = {
        role: {"provider": "scripted", "replies": replies}
        for role, replies in scenario.replies.items()
    }
    options = {"capabilities": scenario.capabilities, "roles": script}
    if scenario.subagents:
        options["subagents"] = scenario.subagents
    content = {
        "name": f"scenario-{name}",
        "environment": environment or "auto",
        "select": {"ids": [instance().instance_id]},
        "arms": [{"name": "loop", "agent": "loop", "model": script["loop"], "options": options}],
    }
    return declaration.parse(content, name)


async def _solve(
    cell: Cell, lake: Lake, journal: Journal, attempt_id: str, stop_after: int | None
) -> Outcome:
    """Run the arm over what is recorded. Stop after so many steps, if a number is given."""
    with _stopping(stop_after) as (on_step, may_go_on):
        return await solved(cell, lake, journal, attempt_id, on_step, may_go_on)


@contextmanager
def _stopping(stop_after: int | None) -> Iterator[Any]:
    """Provide what counts the steps, and what stops after some of them."""
    count = 0

    def on_step(step: Step) -> None:
        nonlocal count
        count += 1

    def may_go_on() -> None:
        if stop_after is not None and count >= stop_after:
            raise Interrupted("the scenario stops here")

    yield on_step, may_go_on
