"""Fixtures: an attempt in the journal and a lease on it."""

import pytest

from agent.journal import Attempt, Journal, Lease
from tests.agent.journal.workers import attempt


@pytest.fixture
def started(journal: Journal) -> Attempt:
    """An attempt in the journal."""
    one = attempt("a1")
    journal.start(one)
    return one


@pytest.fixture
def lease(journal: Journal, started: Attempt) -> Lease:
    """A lease on the attempt that outlasts the test."""
    return journal.acquire(started.attempt_id, "first", 300)
