"""A viewer reads what is new, in the order in which steps began."""

from agent.journal import Journal, Lease
from tests.agent.journal.workers import EXPERIMENT, attempt, intend, record


def places(journal: Journal, known: set[tuple[str, int]]) -> list[tuple[str, int]]:
    """Return the places of the new steps of the attempt."""
    return [(step.scope, step.seq) for step in journal.watching.new_steps("a1", known)]


def test_attempts_are_watched_by_their_number_of_results(journal: Journal, lease: Lease) -> None:
    """An intent does not count, and other experiments are left out."""
    journal.start(attempt("other", experiment="elsewhere"))
    intend(journal, lease, 0)
    [before] = journal.watching.attempts([EXPERIMENT])
    record(journal, lease, 0)
    [after] = journal.watching.attempts([EXPERIMENT])
    assert (before.steps, after.steps, after.has_ended) == (0, 1, False)
    assert after.attempt == attempt("a1")
    journal.end(lease, "{}")
    assert [each.has_ended for each in journal.watching.attempts([EXPERIMENT])] == [True]
    assert len(journal.watching.attempts([EXPERIMENT, "elsewhere"])) == 2
    assert journal.watching.attempts([]) == []


def test_a_step_is_new_once_it_has_a_result(journal: Journal, lease: Lease) -> None:
    """Of concurrent steps, one that began earlier may be new later."""
    intend(journal, lease, 0, scope="left")
    intend(journal, lease, 0, scope="right")
    record(journal, lease, 0, scope="right")
    assert places(journal, set()) == [("right", 0)]
    record(journal, lease, 0, scope="left")
    assert places(journal, {("right", 0)}) == [("left", 0)]
    assert places(journal, set()) == [("left", 0), ("right", 0)]
