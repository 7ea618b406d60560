"""Steps of a parent answer those of a fork where all their inputs are the same."""

import json
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest

from agent.conversation.person import Person, join_texts
from agent.errors import Waiting
from agent.journal import Attempt, InboxMessage
from agent.session import log
from agent.session.reuse import Origins, Reuse, Rules
from agent.session.session import Session
from tests.agent.attempts import begin, open_session
from tests.agent.session.runs import ASK, prepare, scripted, text
from tests.agent.workspaces_on_host import HostWorkspaces

ORIGINS = Origins({"": "model-1"}, place="image-1")


class Family:
    """A parent and its forks in one journal."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.workspaces = HostWorkspaces(prepare)
        self.journal = begin(folder, "parent")

    def session(
        self,
        name: str,
        *,
        origins: Origins | None = ORIGINS,
        rules: Rules | None = None,
        model: Any = None,
    ) -> AbstractAsyncContextManager[Session]:
        """Open the parent, or a fork of it, which has other answers ready."""
        reuse = None
        if name != "parent":
            fork = Attempt(name, "experiment", "arm", "instance", 0, "{}", "parent", reuse="{}")
            self.journal.start(self.journal.attempt(name) or fork)
            reuse = Reuse("parent", self.journal.steps("parent"), rules or Rules())
        return open_session(
            self.journal,
            self.folder,
            model or scripted("new", "newer"),
            name,
            workspaces=self.workspaces,
            origins=origins,
            reuse=reuse,
        )

    def copied(self, name: str) -> list[tuple[str, int]]:
        """Return the steps that the parent answered."""
        return [(step.scope, step.seq) for step in self.journal.steps(name) if step.copied]


@pytest.fixture
async def family(tmp_path: Path) -> Family:
    made = Family(tmp_path)
    async with made.session("parent", model=scripted("one", "two")) as session:
        await work(session)
    made.workspaces.opened.clear()
    return made


async def work(session: Session, *, note: str = "x", settings: Any = "s") -> list[str]:
    """Ask, edit by the answer, note something, and look at the result with a tool."""
    first = await session.call(ASK)
    await session.run(f"echo {first.message['content']} >> file.txt", timeout_s=10)
    done = await session.run(f"echo {note} > /dev/null; date +%s%N", timeout_s=10)
    seen = await session.act("read", {}, text, str, depends_on=settings)
    second = await session.scope("review").call(ASK)
    return [done.output, seen, str(second.message["content"])]


async def test_nothing_changed_buys_nothing_and_opens_no_workspace(family: Family) -> None:
    """A fork with the same inputs has the same results, without a call or a workspace."""
    async with family.session("fork", model=scripted()) as session:
        again = await work(session)
    async with family.session("parent") as session:
        assert again == await work(session)
    assert len(family.copied("fork")) == len(family.journal.steps("parent")) == 5
    assert family.workspaces.opened == []
    account = family.journal.account("fork")
    assert (account.calls_credited, account.calls_billed, account.billed_usd) == (2, 0, 0.0)


async def test_reused_steps_in_a_row_are_written_with_the_next_call(
    family: Family, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are in the journal, in their order, before a call that may build on them is sent."""
    monkeypatch.setattr(log, "HOLD_S", 3600.0)
    async with family.session("fork", model=scripted("reused", "next")) as session:
        await work(session)
        assert family.journal.steps("fork") == []
        await session.call(ASK)
    ordered = sorted(family.journal.steps("fork"), key=lambda step: step.ordinal)
    assert [step.copied for step in ordered] == [True] * 5 + [False]
    assert [step.kind for step in ordered[1:4]] == ["command", "command", "action"]


@pytest.mark.parametrize(
    ("changed", "anew"),
    [
        ({"origins": Origins({"": "model-1", "reviewer": "model-2"}, "image-1")}, set()),
        ({"origins": Origins({"": "model-2"}, "image-1")}, {0, 1, 2, 3, "review"}),
        ({"origins": Origins({"": "model-1"}, "image-2")}, {1, 2, 3}),
        ({"origins": None}, {0, 1, 2, 3, "review"}),
        ({"rules": Rules(never=[r"^date|; date"])}, {2}),
    ],
    ids=["unused role", "model", "image", "unknown", "volatile"],
)
async def test_what_has_other_inputs_is_done_anew(
    family: Family, changed: dict[str, Any], anew: set[int | str]
) -> None:
    """Another model concerns calls and what follows from them, another image work alone."""
    async with family.session("fork", **changed) as session:
        await work(session)
    steps = {step.scope or step.seq for step in family.journal.steps("fork") if not step.copied}
    assert steps == anew


async def test_what_comes_out_the_same_ends_the_differences(family: Family) -> None:
    """A changed command that leaves the same tree is done anew, and nothing behind it."""
    async with family.session("fork") as session:
        await work(session, note="y")
    assert family.copied("fork") == [("", 0), ("", 1), ("", 3), ("review", 0)]
    assert family.workspaces.opened == [""]


async def test_an_edited_result_changes_what_depends_on_it(family: Family) -> None:
    """An edited reply is credited, and the work that follows from it is done anew."""
    [first, *_] = family.journal.steps("parent")
    assert first.result is not None
    reply = json.loads(first.result)
    reply["message"]["content"] = "edited"
    rules = Rules.from_text(Rules(edits={"0": json.dumps(reply)}).to_text())
    async with family.session("fork", rules=rules) as session:
        _, seen, _ = await work(session)
    assert seen == "base\nedited\n"
    assert family.copied("fork") == [("", 0), ("review", 0)]


async def test_a_fork_that_was_killed_goes_on(family: Family) -> None:
    """Steps reused before a kill are replayed, and the rest is still reused."""
    async with family.session("fork", model=scripted()) as session:
        await session.call(ASK)
    async with family.session("fork", model=scripted()) as session:
        await work(session)
    assert len(family.copied("fork")) == 5
    assert family.journal.account("fork").calls_credited == 2


OUTER = ("date +%s%N", "cat {outside}", "cat ignored.txt")
"""Commands that depend on the time, on a file elsewhere, and on a file that git ignores."""


@pytest.mark.parametrize(
    ("never", "anew"),
    [
        ([], ""),
        ([r"^date\b"], "time"),
        (["outside"], "outside"),
        (["cat .*ignored"], "ignored"),
        ([r"^date\b", "cat "], "time outside ignored"),
    ],
    ids=["none", "time", "outside", "ignored", "all"],
)
async def test_what_is_outside_of_the_tree_is_seen_only_by_commands_that_are_never_reused(
    tmp_path: Path, never: list[str], anew: str
) -> None:
    """All others have the results of the parent, although they would have others today."""
    outside = tmp_path / "outside.txt"
    outside.write_text("before\n")

    async def look(session: Session) -> list[str]:
        make = "echo ignored.txt > .gitignore; echo kept > ignored.txt"
        await session.run(make, timeout_s=10)
        commands = [command.format(outside=outside) for command in OUTER]
        return [(await session.run(command, timeout_s=10)).output for command in commands]

    family = Family(tmp_path / "other")
    async with family.session("parent") as session:
        before = await look(session)
    assert before[1:] == ["before\n", "kept\n"]
    outside.write_text("after\n")
    family.workspaces.opened.clear()
    async with family.session("fork", rules=Rules(never=never)) as session:
        after = await look(session)
    names = ("time", "outside", "ignored")
    differ = [name for name, one, other in zip(names, before, after, strict=True) if one != other]
    assert differ == anew.split()
    assert family.workspaces.opened == ([""] if anew else [])
    if "outside" in anew:
        assert after[1] == "after\n"
    if "ignored" in anew:
        assert "No such file" in after[2]
    assert {seq for _, seq in family.copied("fork")} == {
        0,
        *(n for n, name in enumerate(names, 1) if name not in anew),
    }


@pytest.mark.parametrize(
    "request_",
    [
        {"command": "date"},
        {"action": "tool", "tool": "run_command", "arguments": {"command": "x; date"}},
        {"action": "tool", "tool": "run_command", "arguments": '{"command": "date"}'},
        {"action": "tool", "tool": "cell", "arguments": {"cell": 1, "code": "import date"}},
    ],
    ids=["command", "tool", "text", "cell"],
)
def test_a_pattern_is_for_commands_and_cells(request_: dict[str, Any]) -> None:
    """Other arguments of tools, such as paths, are no commands."""
    assert Rules(never=["date"]).forbids(json.dumps(request_).encode())
    assert not Rules(never=["^today"]).forbids(json.dumps(request_).encode())
    other = {"action": "tool", "tool": "read", "arguments": {"path": "date"}}
    assert not Rules(never=["date"]).forbids(json.dumps(other).encode())


async def test_a_fork_that_goes_on_begins_at_the_last_reused_change(family: Family) -> None:
    """Scopes that work at the same time may be replayed in any order."""

    async def note(scope: Session, text: str) -> None:
        await scope.run(f"echo {text} >> file.txt", timeout_s=10)

    async def look(scope: Session) -> str:
        return (await scope.run("cat file.txt # now", timeout_s=10)).output

    parent = Family(family.folder / "other")
    async with parent.session("parent") as session:
        await note(session.scope("one"), "1")
        await note(session.scope("two"), "2")
    async with parent.session("fork") as session:
        await note(session.scope("one"), "1")
        await note(session.scope("two"), "2")
    async with parent.session("fork") as session:
        first = session.scope("one")
        await note(first, "1")
        assert await look(first) == "base\n1\n2\n"
        await note(session.scope("two"), "2")
        assert await look(first) == "base\n1\n2\n"


async def test_a_fork_is_told_what_its_parent_was_told(
    tmp_path: Path, set_timings: Callable[..., None]
) -> None:
    """It reads the same messages at the same places. An answer to another question is none."""
    set_timings(idle_s=0)
    family = Family(tmp_path / "talk")

    async def talk(session: Session, question: str = "which?") -> list[str]:
        person = Person(session)
        texts = [join_texts(await person.news(1))]
        await session.call(ASK)
        say(session.attempt.attempt_id, "b")
        texts.append(join_texts(await person.answer(1, "message", "done")))
        say(session.attempt.attempt_id, "c")
        return [*texts, join_texts(await person.answer(1, "answer", question))]

    def say(name: str, text: str) -> None:
        if name == "parent":
            family.journal.inbox(name).send(InboxMessage(text, "say", text, "ann"))

    async with family.session("parent") as session:
        say("parent", "a")
        assert await talk(session) == ["a", "b", "c"]
    async with family.session("same", model=scripted()) as session:
        assert await talk(session) == ["a", "b", "c"]
    async with family.session("other", model=scripted()) as session:
        with pytest.raises(Waiting):
            await talk(session, "what?")
    assert family.copied("other") == [("", 0), ("inbox", 0), ("inbox", 1)]
