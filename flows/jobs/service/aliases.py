"""Other names of fields that clients of earlier services send and expect."""

from typing import Any

from agent.journal import Journal
from flows.jobs.mailbox import read_watched
from flows.jobs.service.guard import Problem
from flows.storage.lake import Lake

_OF_STATUS = {
    "job_id": "id",
    "status": "state",
    "pr_url": "pull_request",
    "total_cost": "cost_usd",
    "total_tokens_in": "input_tokens",
    "total_tokens_out": "output_tokens",
}


def read_body(body: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of a job or a pipeline without `user_id`, which means nothing here.

    Raises:
        Problem: it has the token of a forge, which a flow run would show.
    """
    if "github_token" in body:
        raise Problem(
            422,
            "github_token: give the workers the token in DURABENCH_FORGE_TOKEN, or name a Prefect "
            "Secret block with it in token_block",
        )
    return {name: value for name, value in body.items() if name != "user_id"}


def add_names(status: dict[str, Any]) -> dict[str, Any]:
    """Return the status of a job with other names for its fields."""
    return {**status, **{name: status[own] for name, own in _OF_STATUS.items()}}


def describe_work(
    lake: Lake, journal: Journal | None, job_id: str, evidence: dict[str, Any] | None,
    steps: list[dict[str, Any]],
) -> dict[str, Any]:  # fmt: skip
    """Return how the arms of a job worked. What is unknown is None."""
    after = (evidence or {}).get("after")
    scopes = [step["place"] for step in steps]
    attempts = read_watched(lake, job_id) if journal else []
    return {
        "logs": write_log(steps).splitlines(),
        "iterations": sum(step["kind"] == "model" for step in steps),
        "tests_passed": None if after is None else after["exit_code"] == 0,
        "debug_mode": any("repair" in scope for scope in scopes),
        "exploration_report_generated": any("explore" in scope for scope in scopes),
        "resumed_from_checkpoint": any(
            len(journal.tenures(each.attempt.attempt_id)) > 1 for each in attempts if journal
        ),
    }


def write_log(steps: list[dict[str, Any]]) -> str:
    """Return one line for each step."""
    lines = [
        " ".join(filter(None, (step["at"], step["arm"], step["name"], step["did"], step["facts"])))
        for step in steps
    ]
    return "".join(f"{' '.join(line.split())}\n" for line in lines)
