"""Preflight: check that an instance's image can be trusted, before money is spent on it.

These conditions must hold: git has nothing newer than the base commit, no file outside the
repository holds the lines of the reference patch, that patch is resolved, and the empty one is not.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from eval import grading, harness, history
from eval.copies import find_copies
from eval.digests import canonical_digest
from eval.errors import ImageError
from eval.types import Evaluation, GradingShell, Instance, OpenShell

TIMEOUT_S = 1800.0
"""Limit of the tests. The experiment's own limit does not apply, as images are checked once."""

_PROCEDURE = 3
"""Version of this procedure.

Increment it with every change here, in `eval.history` or `eval.copies` that can change a preflight.
"""


@dataclass(frozen=True)
class Preflight:
    """Result of the check of one image."""

    instance_id: str
    reasons: tuple[str, ...]
    """Problems of the image, each with its kind in front. Empty if the image is fit."""
    checked_at: datetime
    harness_version: str

    @property
    def passed(self) -> bool:
        """True if the image is fit."""
        return not self.reasons


async def check(
    instance: Instance,
    open_shell: OpenShell,
    open_apart: OpenShell | None = None,
    open_for_arm: OpenShell | None = None,
) -> Preflight:
    """Check one image, in fresh workspaces: one as arms get it, and two as gradings do.

    `open_apart` is for `grading.grade`.

    Raises:
        ImageError: infrastructure failed, so that nothing was checked.
    """
    checked_at = datetime.now(UTC)
    async with (open_for_arm or open_shell)() as shell:
        reasons = [str(leak) for leak in await history.inspect(shell, instance.base_commit)]
        if shell.environment == "docker":
            copies = await find_copies(shell, instance.patch)
            reasons += [f"copy: {path} has the lines of the reference patch" for path in copies[:3]]
    async with open_shell() as shell:
        null = await _grade(instance, "", shell, open_apart)
    if null.resolved:
        reasons.append("null: the tests pass without any patch")
    if instance.solution:  # its reference is a script, which only the arm `gold` runs
        return Preflight(instance.instance_id, tuple(reasons), checked_at, harness.version())
    async with open_shell() as shell:
        gold = await _grade(instance, instance.patch, shell, open_apart)
    if not gold.resolved:
        reasons.append(f"gold: the reference patch is {gold.outcome}: {gold.reason}")
    return Preflight(instance.instance_id, tuple(reasons), checked_at, harness.version())


def preflight_key(
    instance: Instance,
    image_digest: str,
    *,
    network: bool,
    resources: Mapping[str, float] = {},
) -> str:
    """Return a SHA-256 that changes whenever the result could change.

    It covers the image's digest, the row, the network and the `resources` that tests may need,
    if they differ from the default, the swebench release and the procedures.
    """
    verdict = grading.grading_key(instance, image_digest, "", TIMEOUT_S, "docker", resources)
    parts = {"verdict": verdict, "network": network, "procedure": _PROCEDURE}
    return canonical_digest(parts)


async def _grade(
    instance: Instance, patch: str, shell: GradingShell, open_apart: OpenShell | None
) -> Evaluation:
    evaluation = await grading.grade(
        instance, patch, shell, open_apart=open_apart, timeout_s=TIMEOUT_S
    )
    if evaluation.outcome == "infrastructure":
        raise ImageError(f"{instance.instance_id} cannot be checked: {evaluation.reason}")
    return evaluation
