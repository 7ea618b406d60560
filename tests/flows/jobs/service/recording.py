"""Jobs as a worker leaves them: rows in the lake, and steps in the journal."""

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

from agent.errors import LeaseHeld
from agent.journal import Attempt, FreeStep, Journal, Lease, NewStep, Reservation, Wanted
from agent.journal.inbox import Inbox
from agent.models.protocol import ModelReply, Usage
from agent.session.steps import canonical, digest, encode
from agent.workspaces import CommandResult
from flows.jobs import rows
from flows.jobs.request import Request
from flows.storage import journals
from flows.storage.lake import Lake
from tests.archives import unpack
from tests.flows.jobs.service.conftest import JOB

PATCH = """\
diff --git a/calc.py b/calc.py
--- a/calc.py
+++ b/calc.py
@@ -1,2 +1,2 @@
 def add(a, b):
-    return a - b
+    return a + b
"""
RUN = {"passed": ["a"], "failed": [], "errors": [], "skipped": [], "exit_code": 0}
EVIDENCE = {
    "before": {**RUN, "passed": [], "failed": ["test_sum"], "exit_code": 1},
    "after": RUN,
    "with_old_tests": None,
    "warnings": ["ruff: unused <import>"],
    "agent_verdict": "accepted",
}


def filed(lake: Path, job_id: str, **changes: Any) -> None:
    """Write the row of a job as its flow does."""
    asked = Request.model_validate(
        {**JOB, "arms": [{"name": "mini", "agent": "mini"}], "id": job_id}
    )
    known = {
        "source": "https://forge.example/octo/demo.git",
        "repo": "octo/demo",
        "title": "Add, don't <b>subtract</b>.",
        "statement": "Add, don't <b>subtract</b>.",
        "base_commit": "0" * 40,
        "base_branch": "main",
        "image": "",
    }
    store = Lake.existing(str(lake))
    rows.update(store, rows.new(asked, **known), **changes)


OLD_LAKE = Path(__file__).parents[2] / "lake_of_0_1" / "lake.tar.xz"
"""A small lake with a finished experiment."""

DONE = {
    "state": "done",
    "verdict": "nothing_broke",
    "reason": "1 tests pass",
    "verification": json.dumps(EVIDENCE),
    "verify_command": "python -m pytest",
    "arm": "mini",
    "attempt_id": "0" * 32,
    "patch": PATCH,
    "branch": "durabench/add",
    "commit": "1" * 40,
    "pull_request": "https://forge.example/octo/demo/pull/1",
    "cost_usd": 0.25,
    "billed_usd": 0.25,
    "input_tokens": 100,
    "output_tokens": 10,
}


def with_experiment(lake: Path) -> None:
    """Add the experiment `legacy` to a lake that is bound to its journal."""
    journals.open_journal(Lake.open(str(lake)))
    names = ("experiments", "attempts", "predictions", "evaluations", "llm_calls")
    unpack(OLD_LAKE, lake, *(f"./{name}/" for name in names))


class Worker:
    """The journal of a lake, written as an attempt of a job does."""

    def __init__(self, lake: Path, job_id: str, arm: str = "mini", agent: str = "mini") -> None:
        self._journal: Journal = journals.open_journal(Lake.open(str(lake)))
        self.attempt_id = f"{job_id}-{arm}"
        spec = json.dumps({"agent": agent})
        attempt = Attempt(self.attempt_id, f"job-{job_id}", arm, "demo-1", 0, spec)
        self._journal.start(attempt)
        self._lease: Lease = self._journal.acquire(self.attempt_id, f"w/{job_id}-{arm}", 3600)
        self._made = 0
        self._journal.offer(f"job-{job_id}")
        with suppress(LeaseHeld):  # another arm of the same job
            self._journal.acquire(f"job-{job_id}", f"w/{job_id}", 3600)

    @property
    def inbox(self) -> Inbox:
        """The messages to the attempt."""
        return self._journal.inbox(self.attempt_id)

    def asks(self, wanted: Wanted, about: str) -> None:
        """Wait for a person, as an attempt does that asks."""
        self.inbox.begin_wait(self._lease, wanted, about, after=0)

    def gives_back(self) -> None:
        """Release the attempt."""
        self._journal.release(self._lease)

    def command(self, text: str) -> None:
        """Record a command and its output."""
        request = canonical({"command": text})
        result = CommandResult(0, f"did {text}", 4, False, False, 0.0)
        step = NewStep("", self._made, "command", digest(request), request)
        self._journal.append(self._lease, FreeStep(step, encode(result), 0.0, None))
        self._made += 1

    def call(self, text: str, cost_usd: float) -> None:
        """Record a model call and its answer."""
        request = canonical({"messages": [{"role": "user", "content": "x"}], "role": "agent"})
        place = ("", self._made)
        step = NewStep(*place, "model", digest(request), request)
        self._journal.intend(self._lease, step, Reservation(1.0, ()))
        usage = Usage(input_tokens=10, output_tokens=2, cost_usd=cost_usd)
        reply = ModelReply({"role": "assistant", "content": text}, usage, "provider", "test")
        self._journal.record(
            self._lease, *place, encode(reply), cost_usd=cost_usd, duration_s=0.1, tree=None
        )
        self._made += 1
