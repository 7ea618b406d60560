"""A model turns messages into one message and its usage. Three kinds of models need no key."""

from pathlib import Path

import pytest

from agent import models
from agent.arms.durable.options import DurableOptions
from agent.errors import InvalidSpec, ModelError
from agent.journal import Journal
from agent.models.pacing import Pace, RateLimit
from agent.models.protocol import ModelRequest, Usage
from agent.models.usage import read_usage
from agent.types import Task

TASK = Task("demo", "Say hello.", "HEAD", "")


def test_a_specification_is_data() -> None:
    """A string is a LiteLLM model.

    A mapping names its provider. A mistake is reported in one line.
    """
    assert models.parse("openai/gpt-5-mini").provider == "litellm"
    assert models.parse({"provider": "simulated", "skill": 0.5}).provider == "simulated"
    with pytest.raises(InvalidSpec, match="skill"):
        models.parse({"provider": "simulated", "skill": 2})


async def test_a_scripted_model_answers_from_a_list() -> None:
    """A list of texts and commands is enough to try an arm by hand.

    After the last one, calls fail.
    """
    replies = ["Let me look.", {"command": "ls"}]
    model = models.build(models.parse({"provider": "scripted", "replies": replies}), TASK, seed=0)
    text = await model.complete(ModelRequest([], number=0))
    assert text.message == {"role": "assistant", "content": "Let me look."}
    command = await model.complete(ModelRequest([], number=1))
    assert command.message["tool_calls"][0]["function"]["name"] == "bash"
    with pytest.raises(ModelError, match="the script ended after 2 replies"):
        await model.complete(ModelRequest([], number=2))


def test_tokens_of_the_cache_are_part_of_the_input() -> None:
    """Input tokens include cache reads and writes. Output tokens include reasoning."""
    block = {
        "prompt_tokens": 1000,
        "prompt_tokens_details": {"cached_tokens": 800},
        "completion_tokens": 50,
        "completion_tokens_details": {"reasoning_tokens": 30},
    }
    usage = read_usage(block).usage
    assert (usage.input_tokens, usage.cache_read_tokens) == (1000, 800)
    assert (usage.output_tokens, usage.reasoning_tokens) == (50, 30)


def test_an_unknown_cost_is_not_zero() -> None:
    """A sum with an unknown part is unknown. Reports count the calls without a price."""
    known, unknown = Usage(input_tokens=10, cost_usd=0.5), Usage(input_tokens=5, cost_usd=None)
    assert known + known == Usage(input_tokens=20, cost_usd=1.0)
    assert known + unknown == Usage(input_tokens=15, cost_usd=None)


def test_roles_can_have_models_of_their_own() -> None:
    """The durable arm asks by role. A role without its own model uses the arm's."""
    own = models.parse("openai/large")
    options = DurableOptions.model_validate(
        {"profile": {"roles": {"step_reviewer": {"model": "openai/small"}}}}
    )
    assert options.models(own) == {"": own, "step_reviewer": models.parse("openai/small")}


async def test_a_rate_limit_is_shared_by_all_workers_of_a_journal(tmp_path: Path) -> None:
    """Requests for ten seconds are sent at once. Each further request waits for its turn,
    whichever worker sends it."""
    waits = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    limit = {"openai": RateLimit(requests_per_minute=6)}
    url = f"sqlite:///{tmp_path}/journal.sqlite"
    first, second = (Pace(Journal.open(url), limit, sleep) for _ in range(2))
    await first.admit(["openai", "openai/gpt-5"], tokens=100)
    await second.admit(["openai", "openai/gpt-5"], tokens=100)
    await first.admit(["openai", "openai/gpt-5"], tokens=100)
    assert waits == [pytest.approx(10, abs=2), pytest.approx(20, abs=2)]
