"""Workers that share one budget. Every call has its own price, which the server also knows."""

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
from flows import solve
from flows.experiments import declaration
from flows.experiments.cells import Cell, Place
from flows.storage.cleanup import swept
from flows.storage.lake import Lake
from tests.durability.crashing import Setting, ask

BUDGET_USD = 0.50
CHEAPEST_USD, DEAREST_USD = 0.01, 0.20


def price(seed: int, number: int) -> tuple[float, float]:
    """What call `number` of the attempt of that seed costs, and at most could: USD.

    Every other call costs what it could, on average.
    """
    chance = random.Random(f"{seed}/{number}")
    usd = round(chance.uniform(CHEAPEST_USD, DEAREST_USD), 4)
    ceiling_usd = round(chance.uniform(usd, DEAREST_USD), 4)
    return usd, chance.choice([usd, ceiling_usd])


class PricedModel:
    """Asks for one command after the other and never submits, at the server's price."""

    info = ModelInfo("priced", "litellm")

    def __init__(self, url: str, seed: int, *, together: bool) -> None:
        """With `together` the first reservation waits until the server lets everybody go."""
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
    """Cells of one experiment and its budget."""
    content = {
        "name": "spend",
        "environment": "host",
        "repeats": count,
        "budgets": {"experiment": {"usd": BUDGET_USD}},
        "arms": [{"name": "mini", "agent": "mini", "model": "openai/priced"}],
    }
    declared = declaration.parse(content, "test")
    instance = instances.load("bundled")[0]
    return [
        Cell(declared, declared.arms[0], instance, repeat, Place("host")) for repeat in range(count)
    ]


def work(setting: Setting, own: Sequence[Cell]) -> None:
    """Run the cells one after the other, each until the budget does not allow its next call.

    All workers make their first reservation at one moment.
    """
    lake = setting.enter()
    solve.models.build = lambda spec, task, seed, admit: PricedModel(  # type: ignore[assignment]
        setting.url, seed, together=seed == own[0].seed
    )
    asyncio.run(_spend(lake, own))


async def _spend(lake: Lake, own: Sequence[Cell]) -> None:
    async with swept(lake):
        for cell in own:
            with suppress(BudgetExhausted):
                await solve.attempt.fn(cell, lake)
                raise AssertionError(f"{cell.label} ended, and was to ask for ever")
