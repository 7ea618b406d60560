"""Programs that share a rate limit, for `test_pacing`."""

import asyncio
import time
from pathlib import Path

from agent.journal import Journal
from agent.models.pacing import Pace, RateLimit


def take_turns(url: str, limit: RateLimit, turns: int, written: Path) -> None:
    """Take `turns` turns under a rate limit and write the time of each to a file, one per line."""

    async def work() -> None:
        pace = Pace(Journal.open(url), {"provider": limit})
        with written.open("a", buffering=1) as file:
            for _ in range(turns):
                await pace.admit(["provider", "provider/model"], 100)
                file.write(f"{time.time()}\n")

    asyncio.run(work())
