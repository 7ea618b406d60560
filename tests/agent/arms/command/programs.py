"""Programs as arms, run any number of times over the same journal."""

from pathlib import Path
from typing import Any

from agent import models
from agent.arms import ARMS
from agent.arms.command.recipe import CommandOptions, Recipe
from agent.journal import Limit
from agent.models.protocol import Model
from agent.types import Outcome, Task
from tests.agent.arms.conftest import TASK, make_repository
from tests.agent.attempts import begin, open_session
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
        self.journal, self._folder = begin(folder), folder
        self.options = CommandOptions(recipe=recipe, **options)
        self.outputs: list[str] = []
        """Outputs of the runs that failed."""

    async def run(self, *limits: Limit, task: Task = TASK) -> Outcome:
        async with open_session(
            self.journal,
            self._folder,
            self.model,
            workspaces=self.workspaces,
            limits=limits,
            on_output=self.outputs.append,
        ) as session:
            return await ARMS["command"].solve(task, session, self.options)


def report(outcome: Outcome) -> dict[str, Any]:
    """Return what the arm reports of its program."""
    assert outcome.report is not None
    return dict(outcome.report["command"])
