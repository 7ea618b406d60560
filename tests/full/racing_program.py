"""`racing_program.py JOURNAL ATTEMPT API USD`: programs of one attempt, which ask all at once."""

import asyncio
import sys
import tempfile
from itertools import count
from pathlib import Path

from agent.errors import AgentError
from agent.gateway.calls import Calls
from agent.journal import Journal, Limit
from agent.models.litellm_api import LiteLLMModel
from agent.models.protocol import Foreign
from agent.models.spec import LiteLLMSpec
from tests.agent.arms.conftest import make_repository
from tests.agent.attempts import open_session
from tests.agent.workspaces_on_host import HostWorkspaces

LIES = [{}, {"max_tokens": 1}, {"max_tokens": -5}, {"max_completion_tokens": 64, "n": 1}]


async def main(url: str, attempt: str, address: str, usd: float) -> None:
    spec = {"name": "openai/gpt-4o-mini", "api_base": address, "timeout_s": 0.5, "max_retries": 2}
    model = LiteLLMModel(LiteLLMSpec.model_validate(spec))
    journal = Journal.open(url)
    limits = (Limit("experiment", "experiment", usd, None),)
    folder = Path(tempfile.mkdtemp())
    numbers = count()
    given = {"limits": limits, "workspaces": HostWorkspaces(make_repository)}
    async with open_session(journal, folder, model, attempt, **given) as session:
        calls = Calls(session.scope("agent"))

        async def ask() -> None:
            for _ in range(20):
                number = next(numbers)
                text = f"{attempt} {number}: " + "word " * 200
                body = {"messages": [{"role": "user", "content": text}], **LIES[number % 4]}
                try:
                    await calls.call(Foreign("chat", body, {}), "", "m")
                except AgentError:
                    return

        await asyncio.gather(*(ask() for _ in range(6)))


asyncio.run(main(sys.argv[1], sys.argv[2], sys.argv[3], float(sys.argv[4])))
