"""A journal: every step is recorded, so that an attempt can be resumed, forked and limited."""

from pathlib import Path

import pytest

from agent.errors import BudgetExhausted, DivergenceError, FencedError, Interrupted, LeaseHeld
from agent.journal import Limit, NewStep
from agent.models.protocol import ModelReply, ModelRequest
from agent.session.session import Session
from tests.walkthrough.one_attempt import QUESTION, OneAttempt, PaidModel, attempt_at_a_cell


@pytest.fixture
def attempt(tmp_path: Path) -> OneAttempt:
    return OneAttempt(tmp_path)


async def work(session: Session) -> str:
    """Ask twice, run a command after each answer, and return the work tree's last state."""
    for _ in range(2):
        reply = await session.call(QUESTION)
        await session.run(f"echo {reply.message['content']} >> notes.txt", timeout_s=10)
    return await session.diff()


async def test_a_step_is_a_request_and_its_result(attempt: OneAttempt) -> None:
    """Every step has a number, a request, a result and, if it was paid for, a cost."""
    async with attempt.session(PaidModel()) as session:
        await session.call(QUESTION)
        await session.run("echo 1 >> notes.txt", timeout_s=10)
    call, command = attempt.journal.steps("first")
    assert (call.seq, call.kind, call.cost_usd) == (0, "model", 0.25)
    assert b"What next?" in call.request
    assert call.tree is None
    # A step that changed files refers to the work tree that it left.
    assert (command.seq, command.kind, command.cost_usd) == (1, "command", 0)
    assert command.tree is not None


async def test_a_second_run_replays_the_record(attempt: OneAttempt) -> None:
    """To resume, the code runs again from the top.

    Recorded steps need no model and no workspace.
    """
    model = PaidModel()
    async with attempt.session(model) as session:
        first = await work(session)
    attempt.workspaces.opened.clear()
    async with attempt.session(model) as session:
        assert await work(session) == first
    assert all(step.replayed for step in session.steps)
    assert (model.calls, attempt.workspaces.opened) == (2, [])


async def test_a_killed_attempt_resumes_from_its_last_step(attempt: OneAttempt) -> None:
    """Paid calls are not repeated, and the new workspace holds the files of the old one."""
    model = PaidModel()

    async def killed() -> None:
        async with attempt.session(model) as session:
            await session.call(QUESTION)
            await session.run("echo 1 >> notes.txt", timeout_s=10)
            raise SystemExit("killed")

    with pytest.raises(SystemExit):
        await killed()
    async with attempt.session(model) as session:
        patch = await work(session)
    assert "+1\n+2\n" in patch
    assert model.calls == 2
    assert attempt.account().billed_usd == 0.5


async def test_another_request_at_a_recorded_step_is_a_divergence(attempt: OneAttempt) -> None:
    """A changed program is rejected with a diff of both requests. Nothing is paid for again."""
    async with attempt.session(PaidModel()) as session:
        await session.call(QUESTION)
    model = PaidModel()
    async with attempt.session(model) as session:
        with pytest.raises(DivergenceError, match="makes a new request at step 0"):
            await session.call(ModelRequest([{"role": "user", "content": "Something else?"}]))
    assert model.calls == 0


async def test_a_fork_reuses_the_steps_before_it(attempt: OneAttempt) -> None:
    """The child gets the results of earlier steps as a credit. Only new steps are billed."""
    async with attempt.session(PaidModel()) as session:
        await work(session)
    attempt.journal.fork("first", attempt_at_a_cell("second"), scope="", seq=2)
    model = PaidModel()
    async with attempt.session(model, "second") as session:
        await work(session)
    account = attempt.account("second")
    assert (model.calls, account.calls_billed, account.calls_credited) == (1, 1, 2)
    assert (account.billed_usd, account.credited_usd) == (0.25, 0.5)


async def test_a_call_that_a_crash_cut_off_is_billed_at_its_ceiling(attempt: OneAttempt) -> None:
    """The request is written before the call, the result after it. A lost answer is billed at
    its maximum cost, and the call is repeated."""

    class Crashing(PaidModel):
        async def complete(self, request: ModelRequest) -> ModelReply:
            raise SystemExit("the power fails")

    async with attempt.session(Crashing()) as session:
        with pytest.raises(SystemExit):
            await session.call(QUESTION)
    [intent] = attempt.journal.steps("first")
    assert intent.result is None
    async with attempt.session(PaidModel()) as session:
        await session.call(QUESTION)
    assert attempt.account().billed_usd == 1.0 + 0.25


async def test_an_attempt_has_one_writer(attempt: OneAttempt) -> None:
    """A lease excludes other workers. A worker that lost its lease can no longer write."""
    journal = attempt.journal
    first = journal.acquire("first", "worker-1", ttl_s=60)
    with pytest.raises(LeaseHeld):
        journal.acquire("first", "worker-2", ttl_s=60)
    journal.renew(first, ttl_s=0)
    second = journal.acquire("first", "worker-2", ttl_s=60)
    assert second.epoch > first.epoch
    with pytest.raises(FencedError):
        journal.intend(first, NewStep("", 0, "model", "digest", b"{}"))


async def test_scopes_number_their_own_steps(attempt: OneAttempt) -> None:
    """A scope is a part of the attempt. A branch is a scope with its own workspace. Both can
    run at any time without renumbering the others."""
    async with attempt.session(PaidModel()) as session:
        plan = session.scope("plan")
        await plan.run("echo plan >> notes.txt", timeout_s=10)
        async with session.branch("candidate-1", session.tree) as branch:
            await branch.run("echo candidate >> notes.txt", timeout_s=10)
            assert "+plan\n+candidate\n" in await branch.diff()
        assert "+candidate" not in await session.diff()
        await session.take(branch.tree)
        assert "+candidate" in await session.diff()
    places = [(step.scope, step.seq) for step in session.steps]
    assert places == [
        ("plan", 0),
        ("candidate-1", 0),
        ("candidate-1", 1),
        *[("", number) for number in range(3)],
    ]


async def test_a_budget_stops_before_the_call_that_could_exceed_it(attempt: OneAttempt) -> None:
    """A call must fit into the budget at its maximum cost. Its real cost counts. A larger budget
    resumes the attempt."""
    model = PaidModel()
    small = Limit("attempt", "first", usd=1.0, calls=None)
    async with attempt.session(model, limits=(small,)) as session:
        with pytest.raises(BudgetExhausted):
            await work(session)
    assert (model.calls, attempt.account().billed_usd) == (1, 0.25)
    large = Limit("attempt", "first", usd=1.25, calls=None)
    async with attempt.session(model, limits=(large,)) as session:
        await work(session)
    assert (model.calls, attempt.account().billed_usd) == (2, 0.5)


async def test_after_a_stop_no_call_begins(attempt: OneAttempt) -> None:
    """Ctrl-C, a pause and a cancellation all lead here. The next run reuses the recorded steps."""
    model, asked = PaidModel(), False

    def check() -> None:
        if asked:
            raise Interrupted("stopped")

    async with attempt.session(model, may_go_on=check) as session:
        await session.call(QUESTION)
        asked = True
        with pytest.raises(Interrupted):
            await session.call(QUESTION)
    assert (model.calls, attempt.account().billed_usd) == (1, 0.25)
