"""A fork adopts single steps of its parent."""

import pytest

from agent.errors import FencedError, JournalError
from agent.journal import AdoptedStep, FreeStep, Inputs, Journal, Lease, NewStep, TreeRef
from tests.agent.journal.workers import attempt, intend, record

INPUTS = Inputs(TreeRef("t", "d"), "inputs")


@pytest.fixture
def child(journal: Journal, lease: Lease) -> Lease:
    """A lease on a fork of an attempt with one call and one command."""
    intend(journal, lease, 0, usd=0.25)
    record(journal, lease, 0, cost=0.125, result=b"reply")
    command = NewStep("", 1, "command", "d", b"{}", inputs=INPUTS)
    journal.append(lease, FreeStep(command, b"out", duration_s=1.0, tree=None))
    journal.start(attempt("a2", parent_id="a1", reuse="{}"))
    return journal.acquire("a2", "second", 300)


def test_an_adopted_step_is_credited_and_not_billed(journal: Journal, child: Lease) -> None:
    """An adopted step is that of the parent, with its inputs and an order of its own."""
    journal.append(child, AdoptedStep("a1", "", 1, INPUTS))
    journal.append(child, AdoptedStep("a1", "", 0, INPUTS))
    first, second = journal.steps("a2")
    assert (first.result, first.cost_usd, first.copied, first.ordinal) == (b"reply", 0.125, True, 2)
    assert (second.result, second.inputs, second.ordinal) == (b"out", INPUTS, 1)
    account = journal.account("a2")
    assert (account.calls_credited, account.calls_billed, account.billed_usd) == (1, 0, 0.0)
    assert journal.attempt("a2") == attempt("a2", parent_id="a1", reuse="{}")


def test_adopting_twice_and_editing(journal: Journal, child: Lease) -> None:
    """Adopting a step again changes nothing. An edited result replaces that of the parent."""
    journal.append(child, AdoptedStep("a1", "", 0, INPUTS, b"edited"))
    journal.append(child, AdoptedStep("a1", "", 0, INPUTS))
    [step] = journal.steps("a2")
    assert (step.result, step.cost_usd) == (b"edited", 0.125)


def test_absent_steps_and_lost_leases_are_refused(journal: Journal, child: Lease) -> None:
    """A step that was pruned meanwhile, and a worker that lost its lease, are errors."""
    with pytest.raises(JournalError, match="no step 7 any more"):
        journal.append(child, AdoptedStep("a1", "", 7, INPUTS))
    journal.release(child)
    journal.acquire("a2", "third", 300)
    with pytest.raises(FencedError):
        journal.append(child, AdoptedStep("a1", "", 0, INPUTS))
