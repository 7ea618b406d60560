"""The mini arm with a real model client over real HTTP, under every kind of fault."""

from tests.agent.arms.conftest import SUBMISSION, Solver
from tests.servers import openai_server as api


def spec(server: api.OpenAIServer) -> dict[str, object]:
    return {"name": "openai/anything", "api_base": server.url}


async def test_an_attempt_survives_every_temporary_fault(solve: Solver) -> None:
    """Every fault is retried or answered, and the patch is unaffected."""
    script = [
        api.rate_limited(retry_after="0.1"),
        api.command("ls"),
        api.server_error(),
        api.dropped(),
        api.command(SUBMISSION[0]),
        api.malformed(),
        api.empty_choices(),
        api.text("I think it is done."),
        *[api.command(command) for command in SUBMISSION[1:]],
    ]
    with api.OpenAIServer(api.in_order(script)) as server:
        outcome, session = await solve(spec(server))
        assert len(server.requests) == len(script)
    assert outcome.patch.endswith("-goodbye\n+hello\n")
    replies = [step.result for step in session.steps if step.kind == "model"]
    assert [reply.retries for reply in replies] == [1, 2, 2, 0, 0]
    assert sum(reply.usage.input_tokens for reply in replies) == 5 * api.USAGE["prompt_tokens"]


async def test_a_full_context_window_gives_up(solve: Solver) -> None:
    """A full context window is a normal end of the attempt, not an infrastructure failure."""
    script = [api.command("ls"), api.context_window()]
    with api.OpenAIServer(api.in_order(script)) as server:
        outcome, _ = await solve(spec(server))
    assert outcome.status == "gave_up"
    assert outcome.detail.startswith("ContextWindowExceeded")
