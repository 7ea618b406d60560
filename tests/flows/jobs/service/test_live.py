"""Whoever follows a job gets each of its steps, once per connection, as it happens."""

import json
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection

from tests.flows.jobs.service.recording import DONE, Worker, filed
from tests.servers.service import Service

SOCKETS = 50


def received(socket: ClientConnection, kind: str) -> dict[str, Any]:
    """Return the next event of a kind."""
    while True:
        event: dict[str, Any] = json.loads(socket.recv(timeout=30))
        if event["type"] == kind:
            return event


def test_steps_arrive_while_the_job_works_and_the_end_closes_the_socket(server: Service) -> None:
    """Those that were there come first; a call has its cost."""
    filed(server.lake, "1000000001")
    worker = Worker(server.lake, "1000000001")
    worker.command("ls")
    with server.follow("1000000001") as socket:
        assert received(socket, "status")["job"]["state"] == "running"
        first = received(socket, "step")
        assert (first["arm"], first["kind"], first["did"]) == ("mini", "command", "ls")
        worker.call("I look.", 0.125)
        second = received(socket, "step")
        assert (second["kind"], second["cost_usd"], second["result"]) == ("model", 0.125, "I look.")
        filed(server.lake, "1000000001", **DONE)
        assert received(socket, "end")["state"] == "done"
        with pytest.raises(ConnectionClosed) as closed:
            socket.recv(timeout=30)
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code == 1000
    assert server.get("/status/1000000001")["cost_usd"] == 0.25


@pytest.mark.full
def test_a_question_of_an_attempt_is_a_change(server: Service) -> None:
    """A follower of a running job sees that one of its arms waits for a person."""
    filed(server.lake, "1000000002")
    worker = Worker(server.lake, "1000000002")
    with server.follow("1000000002") as socket:
        assert received(socket, "status")["asks"] == []
        worker.asks("approval", "the patch")
        event = received(socket, "status")
        [asks] = event["asks"]
        assert (asks["arm"], asks["wanted"], asks["about"]) == ("mini", "approval", "the patch")
        assert event["job"]["state"] == "running"


def test_a_follower_comes_back_after_a_restart_of_the_service(server: Service) -> None:
    """The socket is closed, and a new one has every step under the key that it had."""
    filed(server.lake, "3000000001")
    worker = Worker(server.lake, "3000000001")
    worker.command("one")
    with server.follow("3000000001") as socket:
        before = received(socket, "step")["key"]
        server.stop()
        with pytest.raises(ConnectionClosed):
            received(socket, "nothing more")
    worker.command("two")
    server.start()
    with server.follow("3000000001") as socket:
        keys = [received(socket, "step")["key"] for _ in range(2)]
    assert keys[0] == before
    assert len({*keys}) == 2


def test_the_page_of_a_job_has_its_steps(server: Service) -> None:
    """A page without a script also has them, with the cost so far."""
    filed(server.lake, "4000000001")
    worker = Worker(server.lake, "4000000001")
    worker.command("echo <hello>")
    worker.call("Done.", 0.5)
    text = server.client.get("/ui/jobs/4000000001").text
    assert "echo &lt;hello&gt;" in text
    assert 'data-cost="0.5" data-calls="1"' in text
