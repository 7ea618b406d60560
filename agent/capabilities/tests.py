"""Tests, run as this repository runs them."""

from agent.capabilities.base import Agent, Capability
from agent.tools.testing import TESTING


def _explained(agent: Agent) -> str:
    runner = agent.crew.tools.runner
    return f"`run_tests` runs tests as this repository does: `{runner.command}`."


TESTS = Capability("tests", tools=TESTING, prompt=_explained)
