"""Every cache key, with the reason for each part.

Prefect's own default key contains the run id and the task's source, and would buy an attempt
again after any edit. These keys hold what decides the result and nothing else.
"""

from eval import audit
from eval.grading import grading_key
from flows.cells import Cell, Submission, canonical_digest

CELL_KEY_FIELDS = {
    "name": "results of one experiment are never those of another",
    "seed": "another seed is another draw",
    "network": "an agent that can download is another agent",
}
"""Fields of the experiment that are part of a cell's key."""

CELL_KEY_IGNORED = {
    "dataset": "the row's own digest is in the key",
    "split": "the row's own digest is in the key",
    "select": "which other instances are run does not change this one",
    "environment": "the environment that was decided is in the key",
    "arms": "the cell's own arm is in the key",
    "model": "the model that answers the cell is in the key",
    "repeats": "the cell's own repeat is in the key; more repeats keep the earlier ones",
    "concurrency": "changes when a cell runs, not what it does",
    "evaluation_timeout_s": "belongs to grading, which has its own key",
    "budgets": "a larger budget goes on with the same attempt",
    "execution": "changes who runs a cell, not what is run",
    "rate_limits": "changes when a model is asked, not what it answers",
    "primary": "changes what is reported, not what is run",
    "family": "changes what is reported, not what is run",
    "images": "changes when an image is here, not what is in it; its digest decides a grading",
    "preflight": "says whether a cell is run at all",
    "audit": "belongs to grading, which has its own key",
}
"""Fields that are not, and why. A test fails when a field is in neither list."""


def attempt_key(cell: Cell) -> str:
    """Key of an attempt.

    The image's digest and the versions of packages are left out on purpose: an image that
    was built again or an upgrade must not buy again what is already paid for. Both are
    recorded with the attempt.
    """
    model = cell.experiment.model_of(cell.arm)
    return canonical_digest(
        {
            **{field: getattr(cell.experiment, field) for field in CELL_KEY_FIELDS},
            "arm": cell.arm.name,
            "agent": cell.arm.agent,
            "model": model.model_dump(mode="json") if model else None,
            "options": cell.arm.options.model_dump(mode="json"),
            "instance": cell.instance.digest,
            "repeat": cell.repeat,
            "environment": cell.place.environment,
        }
    )


def verdict_key(submission: Submission) -> str:
    """Key of a grading: what `eval.grading` says decides a verdict, and nothing else.

    Whose patch it is decides nothing: attempts that end with the same patch share a verdict,
    in whichever experiment of the lake they are.
    """
    place = submission.place
    return grading_key(
        submission.instance,
        place.image_digest or "",
        submission.patch,
        submission.timeout_s,
        f"{place.environment} with network" if place.network else place.environment,
    )


def audit_key(submission: Submission) -> str:
    """Key of a second grading: that of the first, and the rules of the audit."""
    return canonical_digest({"first": verdict_key(submission), "audit": audit.PROCEDURE})
