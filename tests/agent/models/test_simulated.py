"""The simulated model: its skill, its trajectory, and its simulated costs."""

import asyncio
import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from agent.errors import InvalidSpec
from agent.models.protocol import Message, ModelReply, ModelRequest, Usage
from agent.models.simulated import SimulatedModel
from agent.models.spec import SimulatedSpec
from agent.types import Task
from tests.agent.models.patch_cases import CASES, Case, make, tree_after

pytestmark = pytest.mark.sampled(5)

BASH: dict[str, Any] = {"type": "function", "function": {"name": "bash", "parameters": {}}}
SUBMIT = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT && cat patch.txt"
PATCH = "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a = 1\n+a = 2\n"


def task(patch: str, name: str = "demo__one") -> Task:
    return Task(name, "It is broken.", "0" * 40, patch)


def model(patch: str = PATCH, *, seed: int = 1, name: str = "demo__one", **spec: Any) -> Any:
    fields = {"provider": "simulated", "skill": 1.0, **spec}
    return SimulatedModel(SimulatedSpec.model_validate(fields), task(patch, name), seed)


def _half(seed: int) -> SimulatedSpec:
    return SimulatedSpec(provider="simulated", skill=0.5, seed=seed)


def command_of(message: Message) -> str | None:
    """Return the command of a reply in either protocol, or None."""
    if message.get("tool_calls"):
        return str(json.loads(message["tool_calls"][0]["function"]["arguments"])["command"])
    found = re.search(r"```mswea_bash_command\n(.*)\n```", message["content"] or "", re.DOTALL)
    return found.group(1) if found else None


def work(subject: Any, repo: Path, *, native: bool = True) -> tuple[str, list[ModelReply]]:
    """Run every command of a model in a repository. Return the submission and the replies."""
    messages: list[Message] = [{"role": "user", "content": "Fix it."}]
    replies: list[ModelReply] = []
    while len(replies) < 60:
        request = ModelRequest(list(messages), [BASH] if native else [])
        reply = asyncio.run(subject.complete(request))
        replies.append(reply)
        command = command_of(reply.message)
        if command is None:
            messages.append({"role": "user", "content": "No action found."})
            continue
        done = subprocess.run(["bash", "-c", command], cwd=repo, capture_output=True)
        assert done.returncode == 0, (command, done.stderr.decode())
        if command == SUBMIT:
            return done.stdout.split(b"\n", 1)[1].decode("utf-8", "surrogateescape"), replies
        role = {"role": "tool", "tool_call_id": "x"} if native else {"role": "user"}
        messages += [reply.message, {**role, "content": done.stdout.decode(errors="replace")}]
    raise AssertionError("the model never submitted")


@pytest.mark.parametrize("native", [True, False], ids=["tools", "text"])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_right_attempt_submits_the_reference_change(
    case: Case, native: bool, tmp_path: Path
) -> None:
    """In either protocol, the submission has the effect of the reference patch."""
    repo = tmp_path / "repo"
    patch = make(case, repo)
    submission, _ = work(model(patch), repo, native=native)
    subprocess.run(["git", "reset", "-q", "--hard"], cwd=repo, check=True)
    subprocess.run(["git", "clean", "-fdq"], cwd=repo, check=True)
    assert tree_after(repo, submission) == tree_after(repo, patch)


def test_a_wrong_attempt_submits_something_else(tmp_path: Path) -> None:
    """Without skill the submitted patch applies but differs from the reference."""
    repo = tmp_path / "repo"
    patch = make(CASES[0], repo)
    submission, _ = work(model(patch, skill=0.0), repo)
    subprocess.run(["git", "reset", "-q", "--hard"], cwd=repo, check=True)
    assert tree_after(repo, submission) != tree_after(repo, patch)


def test_skill_is_the_share_of_right_attempts() -> None:
    """The share of right attempts approximates the skill."""
    right = sum(model(seed=seed, skill=0.7).right for seed in range(1000))
    assert 650 < right < 750


def test_draws_differ_by_attempt_task_and_seed() -> None:
    """Draws of different attempts, tasks and seeds are independent."""
    draws = [
        [model(seed=n, skill=0.5).right for n in range(40)],
        [model(name=f"demo__{n}", skill=0.5).right for n in range(40)],
        [SimulatedModel(_half(n), task(PATCH), 1).right for n in range(40)],
    ]
    assert all(set(column) == {True, False} for column in draws)
    assert draws[0] != draws[1] != draws[2] != draws[0]


def test_draws_never_change() -> None:
    """The draws of earlier releases never change, so their attempts can be repeated."""
    lots = "".join("+" if model(seed=seed, skill=0.5).right else "-" for seed in range(24))
    assert lots == "--+-+++++---+++++++--+-+"


async def test_the_same_question_gets_the_same_answer() -> None:
    """A reply depends only on the conversation, not on earlier calls."""
    request = ModelRequest([{"role": "user", "content": "Fix it."}], [BASH])
    subject = model(skill=0.5, malformed=0.5)
    first = await subject.complete(request)
    await subject.complete(ModelRequest([*request.messages, first.message], [BASH]))
    assert await subject.complete(request) == first
    assert await model(skill=0.5, malformed=0.5).complete(request) == first


def test_malformed_replies_do_not_change_the_work(tmp_path: Path) -> None:
    """After an error message the model continues where it was, and still submits."""
    repo = tmp_path / "repo"
    patch = make(CASES[0], repo)
    clean, plain = work(model(patch), repo)
    subprocess.run(["git", "reset", "-q", "--hard"], cwd=repo, check=True)
    submission, replies = work(model(patch, malformed=0.4), repo)
    assert submission == clean
    assert len(replies) > len(plain)


def test_usage_models_a_prompt_cache(tmp_path: Path) -> None:
    """Each call reads the previous request from the cache and pays for the new part."""
    repo = tmp_path / "repo"
    base = b"# A line that takes room in the conversation.\n" * 300
    case = Case("long", {"a.py": base}, {"a.py": base + b"x = 2\n"})
    _, replies = work(model(make(case, repo)), repo)
    usages = [reply.usage for reply in replies]
    assert all(u.cache_read_tokens + u.cache_write_tokens <= u.input_tokens for u in usages)
    assert usages[0].cache_read_tokens == 0
    assert usages[-1].cache_read_tokens > 1000
    total = sum(usages, Usage())
    assert total.cost_usd is not None
    assert 0 < total.cost_usd < 1
    assert {reply.cost_source for reply in replies} == {"simulated"}


def test_tools_are_written_to_the_cache_once() -> None:
    """Tools precede all messages, so later calls read them from the cache."""
    tools = [{**BASH, "description": "x" * 8000}]
    opening = [{"role": "user", "content": "y" * 8000}]
    subject = model()
    first = asyncio.run(subject.complete(ModelRequest(opening, tools)))
    assert first.usage.cache_write_tokens == first.usage.input_tokens > 4000
    longer = [*opening, first.message, {"role": "tool", "content": "z" * 400}]
    second = asyncio.run(subject.complete(ModelRequest(longer, tools))).usage
    assert second.cache_read_tokens == first.usage.input_tokens
    assert 100 < second.cache_write_tokens < 300


def commands(subject: Any, scope: str = "") -> list[str]:
    """Return the commands of an attempt without running them."""
    talk: list[Message] = [{"role": "user", "content": "Fix it."}]
    found = [""]
    while found[-1] != SUBMIT:
        request = ModelRequest(list(talk), [BASH], scope=scope)
        message = asyncio.run(subject.complete(request)).message
        found.append(str(command_of(message)))
        talk += [message, {"role": "tool", "content": ""}]
    return found[1:]


@pytest.mark.parametrize("name", ["two hunks", "new file", "deleted with change", "renamed"])
def test_tests_can_show_mini_its_mistake(name: str, tmp_path: Path) -> None:
    """A wrong change is reverted, and the last change is submitted."""
    repo = tmp_path / "repo"
    patch = make(next(case for case in CASES if case.name == name), repo)
    faults = {"skill": 0.5, "correlation": 0.0, "mini_tests": 1.0, "mini_notices": 1.0}
    submissions = []
    for seed in range(40):
        subject = model(patch, seed=seed, **faults)
        if not subject.right and len(asked := [*commands(subject)]) < 12:
            assert sum("pytest" in command for command in asked) > 1
            submissions.append(work(subject, repo)[0])
            break
    subprocess.run(["git", "reset", "-q", "--hard"], cwd=repo, check=True)
    subprocess.run(["git", "clean", "-fdxq"], cwd=repo, check=True)
    assert [tree_after(repo, made) for made in submissions] == [tree_after(repo, patch)]


def test_mini_runs_tests_and_notices_with_the_configured_frequency() -> None:
    """The shares of attempts that run tests and that notice a mistake are the configured ones."""
    ran = [commands(model(seed=seed, mini_tests=0.5)) for seed in range(200)]
    share = sum(any("pytest" in command for command in each) for each in ran) / 200
    assert share == pytest.approx(0.5, abs=0.1)
    assert not any("pytest" in command for command in commands(model()))
    spec = {"skill": 0.0, "mini_tests": 1.0, "mini_notices": 0.5}
    runs = [commands(model(seed=seed, **spec)) for seed in range(200)]
    noticed = sum(any("git checkout" in command for command in each) for each in runs) / 200
    assert noticed == pytest.approx(0.5, abs=0.1)


def test_more_exploration_is_more_commands() -> None:
    """The model runs the configured number of exploring commands before its change."""
    assert len(commands(model(exploration=9))) == len(commands(model())) + 9


def test_tries_of_mini_differ_by_scope_unless_correlated() -> None:
    """Tries are independent without correlation and identical with full correlation."""

    def patches(correlation: float) -> set[str]:
        subject = model(skill=0.5, correlation=correlation)
        tries = [commands(subject, f"try-{n}") for n in range(30)]
        return {command for each in tries for command in each if "git apply" in command}

    assert len(patches(1.0)) == 1
    assert commands(model(skill=0.5), "try-1") == commands(model(skill=0.5))
    assert len(patches(0.0)) > 1


def test_a_task_without_reference_patch_is_refused() -> None:
    """Without a reference patch no attempt could be right, so the error says that one is needed."""
    with pytest.raises(InvalidSpec, match="reference patch"):
        model("")
