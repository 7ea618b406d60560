"""Messages to jobs over HTTP, as an attempt in the journal gets them."""

from typing import Any
from uuid import uuid4

import pytest

from flows.jobs.service.orders import JobMessage
from tests.flows.jobs.service.recording import Worker, filed
from tests.flows.jobs.service.test_service import page
from tests.servers.service import Service


@pytest.fixture
def job(server: Service) -> str:
    """Return a job at work."""
    job_id = uuid4().hex[:10]
    filed(server.lake, job_id)
    return job_id


def hearing(server: Service, job: str, arm: str = "loop") -> Worker:
    """Return a worker on an attempt whose agent reads messages."""
    return Worker(server.lake, job, arm, agent="loop")


def ordered(server: Service, job: str) -> list[dict[str, Any]]:
    """Return the flow runs of a job."""
    found: list[dict[str, Any]] = server.server.post(
        "/flow_runs/filter", {"flow_runs": {"name": {"any_": [f"job {job}"]}}}
    )
    return found


@pytest.mark.full
def test_a_message_reaches_the_attempt_once(server: Service, job: str) -> None:
    """The worker that has the attempt reads it, so that nothing is ordered."""
    worker = hearing(server, job)
    path, key = f"/jobs/{job}/messages", {"Idempotency-Key": "one"}
    content = {"text": "leave the tests alone", "sender": "ann"}
    first, again = (server.post(path, content, headers=key) for _ in range(2))
    assert first == again
    [read] = worker.inbox.read()
    assert (read.kind, read.text, read.sender) == ("say", "leave the tests alone", "ann")
    assert (first["arm"], first["n"], first["attempt"]) == ("loop", 1, worker.attempt_id)
    assert ordered(server, job) == []
    [said] = server.get(path)["messages"]
    assert (said["speaker"], said["name"], said["text"]) == ("person", "ann", content["text"])
    assert said["is_read"] is False
    other = server.refusal("POST", path, json={"text": "other"}, headers=key)
    assert other[0] == 409
    assert "was sent before with another text" in other[1]


def test_what_an_attempt_asks_is_in_the_status_and_approved(server: Service, job: str) -> None:
    """It has been given back, so that the approval orders what continues it, once."""
    worker = hearing(server, job)
    assert server.get(f"/status/{job}")["asks"] == []
    worker.asks("approval", "1. add instead")
    worker.gives_back()
    filed(server.lake, job, state="waiting", detail="arm loop waits for a person's approval")
    [asked] = server.get(f"/status/{job}")["asks"]
    assert (asked["arm"], asked["wanted"], asked["about"]) == ("loop", "approval", "1. add instead")
    shown = page(server, f"/ui/jobs/{job}")
    assert "1. add instead" in shown
    assert "Approve and publish" not in shown
    server.post(f"/jobs/{job}/approve")
    assert [each.kind for each in worker.inbox.read()] == ["approve"]
    [run] = ordered(server, job)
    assert run["parameters"]["request"]["id"] == job
    assert "approved" not in run["parameters"]
    assert server.get(f"/status/{job}")["asks"] == []
    status, said = server.refusal("POST", f"/jobs/{job}/messages", json={"kind": "approve"})
    assert (status, "is not waiting for an answer" in said) == (409, True)


def test_a_question_is_answered_and_not_approved(server: Service, job: str) -> None:
    """To approve would not answer it."""
    worker = hearing(server, job)
    worker.asks("answer", "which one?")
    worker.gives_back()
    status, said = server.refusal("POST", f"/jobs/{job}/approve")
    assert (status, said) == (
        409,
        f"arm loop waits for a person's answer: answer with POST /jobs/{job}/messages",
    )
    server.post(f"/jobs/{job}/messages", {"text": "the first"})
    assert len(ordered(server, job)) == 1


@pytest.mark.parametrize(
    ("content", "status", "said"),
    [
        ({"text": ""}, 422, "the message is empty"),
        ({"text": "x" * 100_001}, 422, "the message has 100,001 bytes"),
        ({"text": "x", "kind": "shout"}, 422, "kind: "),
        ({"text": "x", "token": "y"}, 422, "token: "),
        ({"text": f"use ghp_{'a' * 36}"}, 422, "text: it holds a token of GitHub"),
        ({"text": "x", "sender": "\n"}, 422, "the sender of a message needs"),
        ({"text": "x", "arm": "other"}, 409, "arm 'other' of job"),
        ({"kind": "approve"}, 409, "attempt "),
        ("x", 422, ""),
    ],
)
def test_a_message_that_is_none_says_why(
    content: Any, status: int, said: str, server: Service, job: str
) -> None:
    """Nothing is sent."""
    worker = hearing(server, job)
    given, message = server.refusal("POST", f"/jobs/{job}/messages", json=content)
    assert (given, message[: len(said)]) == (status, said)
    assert worker.inbox.read() == []


def test_a_job_that_cannot_hear_says_why(server: Service, job: str) -> None:
    """It has not started, its agent reads no messages, it has ended, or it does not exist."""
    path = f"/jobs/{job}/messages"
    filed(server.lake, job, state="waiting")
    begun = server.refusal("POST", path, json={"text": "x"})
    assert begun == (409, f"no arm of job {job} is at work so far; the job is waiting")
    Worker(server.lake, job, "mini", agent="mini")
    status, said = server.refusal("POST", path, json={"text": "x"})
    assert (status, "only durable, loop and staged read messages" in said) == (409, True)
    filed(server.lake, job, state="failed")
    ended = server.refusal("POST", path, json={"text": "x"})
    assert ended == (409, f"job {job} has ended: it is failed")
    assert server.refusal("POST", "/jobs/0000000000/messages", json={"text": "x"})[0] == 404
    assert JobMessage(text="x").kind == "say"
