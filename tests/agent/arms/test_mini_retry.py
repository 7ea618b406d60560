"""The arm mini_retry: mini-swe-agent, best of k by the tests that it can run."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from agent.arms import ARMS
from agent.arms.options import MiniRetryOptions
from agent.errors import ModelError
from agent.models.chat import bash_call
from agent.models.protocol import ModelInfo, ModelReply, ModelRequest, Usage
from agent.session.session import Session
from agent.types import Outcome, Task
from tests.agent.attempts import begin, open_session
from tests.agent.repositories import with_files
from tests.agent.workspaces_on_host import HostWorkspaces

pytestmark = [pytest.mark.slow]

FILES = {
    "calc.py": "def add(a, b):\n    return a - b\n\n\ndef double(a):\n    return 2 * a\n",
    "tests/test_calc.py": (
        "from calc import double\n\n\ndef test_double():\n    assert double(2) == 4\n"
        "\n\ndef test_double_none():\n    assert double(0) == 0\n"
    ),
    "pyproject.toml": '[project]\nname = "calc"\n\n[tool.pytest.ini_options]\npythonpath = ["."]\n',
}
TASK = Task("calc-1", "add(2, 3) returns -1.", "HEAD", "")

FIX = "sed -i 's/a - b/a + b/' calc.py"
BREAK = "sed -i 's/2 \\* a/3 * a/' calc.py"
"""Breaks one of the existing tests."""
RUIN = "sed -i 's/2 \\* a/a ** 0 + 5/' calc.py"
"""Breaks both of the existing tests."""
SUBMIT = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT && cat patch.txt"


class Tries:
    """A model that makes the given change in each try and submits it."""

    info = ModelInfo("tries", "scripted")

    def __init__(self, *changes: str) -> None:
        self.asked: Counter[tuple[str, int]] = Counter()
        self.lost: tuple[str, int] | None = None
        """Scope and number of a call that fails."""
        self._changes = changes

    def ceiling_usd(self, request: ModelRequest) -> float:
        return 0.0

    async def complete(self, request: ModelRequest) -> ModelReply:
        if self.lost == (request.scope, request.number):
            raise ModelError("the process dies now", retryable=False)
        self.asked[request.scope, request.number] += 1
        change = self._changes[int(request.scope.removeprefix("try-")) - 1]
        commands = [change, "git diff -- calc.py > patch.txt", SUBMIT]
        message = bash_call(commands[request.number], call_id=f"call_{request.number}")
        return ModelReply(message, Usage(cost_usd=0.01), "declared", "tries")


async def solve(
    model: Tries, tries: int = 2, workspaces: HostWorkspaces | None = None
) -> tuple[Outcome, Session]:
    """Run the arm on the host. Return its outcome and session."""
    options = MiniRetryOptions(tries=tries)
    workspaces = workspaces or HostWorkspaces(with_files(FILES))
    models = {"": model}
    async with Session.start(attempt_id="a", models=models, workspaces=workspaces) as session:
        return await ARMS["mini_retry"].solve(TASK, session, options), session


def scopes(model: Tries) -> Sequence[str]:
    return list(dict.fromkeys(scope for scope, _ in model.asked))


async def test_the_first_patch_that_breaks_nothing_is_submitted() -> None:
    """No further try is started after a patch that breaks no test."""
    model = Tries(FIX, RUIN)
    outcome, _ = await solve(model)
    assert outcome.status == "submitted"
    assert "+    return a + b" in outcome.patch
    assert scopes(model) == ["try-1"]
    assert outcome.report is not None
    [only] = outcome.report["tries"]
    assert (only["chosen"], only["tests"]) == (True, ["tests/test_calc.py"])


async def test_a_patch_that_breaks_tests_is_tried_again_from_the_base_commit() -> None:
    """The second try starts from the base commit, without the first one's change."""
    model = Tries(BREAK, FIX)
    outcome, _ = await solve(model)
    assert "+    return a + b" in outcome.patch
    assert "3 * a" not in outcome.patch
    assert outcome.report is not None
    first, second = outcome.report["tries"]
    assert first["failed_checks"] == ["tests/test_calc.py::test_double fails and did not before"]
    assert (first["chosen"], second["chosen"]) == (False, True)


async def test_the_patch_with_the_fewest_new_failures_is_submitted() -> None:
    """If every patch breaks tests, the one with the fewest new failures is submitted."""
    outcome, _ = await solve(Tries(RUIN, BREAK, RUIN), tries=3)
    assert "3 * a" in outcome.patch
    outcome, _ = await solve(Tries(BREAK, RUIN))
    assert "3 * a" in outcome.patch


async def test_calls_before_a_crash_are_not_repeated(tmp_path: Path) -> None:
    """A resumed attempt repeats no recorded call and has the outcome of an uninterrupted one."""
    expected, _ = await solve(Tries(BREAK, FIX))
    journal, model = begin(tmp_path), Tries(BREAK, FIX)
    workspaces, options = HostWorkspaces(with_files(FILES)), MiniRetryOptions(tries=2)
    model.lost = ("try-2", 1)
    async with open_session(journal, tmp_path, model, workspaces=workspaces) as session:
        with pytest.raises(ModelError):
            await ARMS["mini_retry"].solve(TASK, session, options)
    model.lost = None
    async with open_session(journal, tmp_path, model, workspaces=workspaces) as session:
        outcome = await ARMS["mini_retry"].solve(TASK, session, options)
    assert outcome == expected
    assert set(model.asked.values()) == {1}
    assert len(model.asked) == 6


async def test_a_patch_is_unproven_where_the_runner_does_not_work() -> None:
    """It is submitted, and the outcome says why the tests show nothing."""
    broken = FILES["pyproject.toml"] + 'addopts = "--no-such-option"\n'
    workspaces = HostWorkspaces(with_files({**FILES, "pyproject.toml": broken}))
    outcome, _ = await solve(Tries(FIX, FIX), workspaces=workspaces)
    assert outcome.status == "submitted"
    assert "a + b" in outcome.patch
    assert outcome.detail.startswith("unproven: the tests show nothing: ")
