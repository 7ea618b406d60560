"""Workers that share one budget. Every call has its own price, which the server knows, too."""

import asyncio
import os
import random
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from agent.errors import BudgetExhausted
from agent.models.chat import bash_call
from agent.models.protocol import ModelInfo, ModelReply, ModelRequest, Usage
from eval import instances
from flows.cells import attempts
from flows.experiments import declaration
from flows.experiments.cells import Cell, Place
from flows.storage.cleanup import clean_up_around
from flows.storage.lake import Lake
from tests.durability.crashing import Setting, ask

BUDGET_USD = 0.50
CHEAPEST_USD, DEAREST_USD = 0.01, 0.20


def price(seed: int, number: int) -> tuple[float, float]:
    """Return the cost of call `number` of the attempt with that seed, and its ceiling, in USD.

    About half of the calls cost as much as their ceiling.
    """
    chance = random.Random(f"{seed}/{number}")
    usd = round(chance.uniform(CHEAPEST_USD, DEAREST_USD), 4)
    ceiling_usd = round(chance.uniform(usd, DEAREST_USD), 4)
    return usd, chance.choice([usd, ceiling_usd])


class PricedModel:
    """A model that asks for one command after another and never submits.

    The server sets its price.
    """

    info = ModelInfo("priced", "litellm")

    def __init__(self, url: str, seed: int, *, together: bool) -> None:
        """With `together`, the first reservation waits until the server releases all workers."""
        self._url = url
        self._seed = seed
        self._together = together

    def ceiling_usd(self, request: ModelRequest) -> float:
        if self._together:
            ask(self._url, {"ready": self._seed})
            self._together = False
        return price(self._seed, request.number)[1]

    async def complete(self, request: ModelRequest) -> ModelReply:
        call = {"seed": self._seed, "number": request.number, "pid": os.getpid()}
        answer: dict[str, Any] = await asyncio.to_thread(ask, self._url, call)
        message = bash_call("true", call_id=f"call_{request.number}", content="next")
        return ModelReply(message, Usage(1, 0, 0, 1, 0, answer["usd"]), "declared", "priced")


def cells(count: int) -> list[Cell]:
    """Return cells of one experiment that share its budget."""
    content = {
        "name": "spend",
        "environment": "host",
        "repeats": count,
        "budgets": {"experiment": {"usd": BUDGET_USD}},
        "arms": [
            {
                "name": "mini",
                "agent": "mini",
                "model": {
                    "name": "openai/priced",
                    "api_base": "http://stand-in.invalid/v1",
                    "input_cost_per_token": 1e-6,
                    "output_cost_per_token": 1e-6,
                },
            }
        ],
    }
    declared = declaration.parse(content, "test")
    instance = instances.load("bundled")[0]
    return [
        Cell(declared, declared.arms[0], instance, repeat, Place("host")) for repeat in range(count)
    ]


def work(setting: Setting, own: Sequence[Cell]) -> None:
    """Run the cells in turn, each until the budget does not allow its next call.

    All workers make their first reservation at the same moment.
    """
    lake = setting.enter()
    attempts.models.build = lambda spec, task, seed, admit: PricedModel(  # type: ignore[assignment]
        setting.url, seed, together=seed == own[0].seed
    )
    asyncio.run(_spend(lake, own))


async def _spend(lake: Lake, own: Sequence[Cell]) -> None:
    async with clean_up_around(lake):
        for cell in own:
            with suppress(BudgetExhausted):
                await attempts.attempt.fn(cell, lake)
                raise AssertionError(f"{cell.label} ended, although its model never submits")
