"""Programs as arms, run any number of times over the same journal."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from agent import models
from agent.arms import ARMS
from agent.arms.command.recipe import CommandOptions, Recipe
from agent.journal import Attempt, Journal, Limit
from agent.journal.blobs import Blobs
from agent.journal.holding import hold_lease
from agent.models.protocol import Model
from agent.session.log import JournalLog
from agent.session.session import Session
from agent.session.steps import Step
from agent.types import Outcome, Task
from tests.agent.arms.conftest import TASK, make_repository
from tests.agent.workspaces_on_host import HostWorkspaces
from tests.servers.strict import Asked, Called, Said

TINY = Path(__file__).with_name("tiny_agent.py")

COMMANDS = ["ls", "printf 'hello\\n' > greeting.txt", "cat greeting.txt"]
"""Commands that solve the task."""


def commands(asked: Asked) -> Said:
    """Give one command after the other, and then end."""
    if asked.turns >= len(COMMANDS):
        return Said("Done.")
    arguments = f'{{"command": "{COMMANDS[asked.turns]}"}}'.replace("\\n", "\\\\n")
    return Said("I work.", (Called("bash", arguments, f"call_{asked.turns}"),))


def tiny(dialect: str, *habits: str, **fields: Any) -> Recipe:
    """Return the recipe of the tiny agent."""
    content = {
        "name": "tiny",
        "dialect": dialect,
        "run": f"python {TINY} {dialect} {' '.join(habits)}",
        "claimed_usd": r"total cost: \$([0-9.]+)",
        "models": {"claude-haiku*": "small"},
        **fields,
    }
    return Recipe.model_validate(content)


class Program:
    """One attempt of a program, which can be run any number of times."""

    def __init__(
        self, folder: Path, recipe: Recipe, model: dict[str, Any] | Model, **options: Any
    ) -> None:
        self.model: Model = (
            models.build(models.parse(model), TASK, 0) if isinstance(model, dict) else model
        )
        self.workspaces: Any = HostWorkspaces(make_repository)
        self.journal = Journal.open(f"sqlite:///{folder}/journal.sqlite")
        self._blobs = Blobs(folder / "blobs")
        self.options = CommandOptions(recipe=recipe, **options)
        self.steps: list[Step] = []
        """The steps of all runs, replayed ones included."""
        self.outputs: list[str] = []
        """Outputs of the runs that failed."""
        self.journal.start(Attempt("a", "experiment", "arm", "instance", 0, "{}"))

    async def run(
        self,
        *limits: Limit,
        task: Task = TASK,
        may_go_on: Callable[[], None] = lambda: None,
        limit_s: float | None = None,
    ) -> Outcome:
        async with hold_lease(self.journal, "a") as lease:
            recorded = self.journal.steps("a")
            log = JournalLog(self.journal, lease, self._blobs, recorded, limits)
            async with Session.start(
                attempt_id="a",
                models={"": self.model},
                workspaces=self.workspaces,
                log=log,
                on_step=self.steps.append,
                may_go_on=may_go_on,
                limit_s=limit_s,
                on_output=self.outputs.append,
            ) as session:
                return await ARMS["command"].solve(task, session, self.options)


def report(outcome: Outcome) -> dict[str, Any]:
    """Return what the arm reports of its program."""
    assert outcome.report is not None
    return dict(outcome.report["command"])
