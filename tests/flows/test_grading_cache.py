"""The changes after which a patch is graded again, counted on real gradings."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from eval import grading, instances
from eval.types import Evaluation
from flows.cells.attempts import grade_submission
from flows.experiments.cells import Place, Submission
from flows.storage.lake import Lake

pytestmark = [pytest.mark.usefixtures("prefect"), pytest.mark.slow]

INSTANCE = instances.load("bundled")[0]

SUBMISSION = Submission(
    "trial", "a", INSTANCE, 0, "attempt", INSTANCE.patch, Place("host", "sha256:1"), 60.0
)


@pytest.fixture
def lake(lake_path: str) -> Lake:
    return Lake.open(lake_path)


@pytest.fixture
def gradings(monkeypatch: pytest.MonkeyPatch) -> list[Evaluation]:
    """Return the gradings that were actually made, in order."""
    made: list[Evaluation] = []
    real = grading.grade

    async def counted(*arguments: Any, **options: Any) -> Evaluation:
        made.append(await real(*arguments, **options))
        return made[-1]

    monkeypatch.setattr(grading, "grade", counted)
    return made


async def test_the_same_patch_is_graded_once(lake: Lake, gradings: list[Evaluation]) -> None:
    """The same patch from other attempts, arms, repeats and experiments is graded once, even
    concurrently. Each attempt gets its row."""
    others = [
        replace(SUBMISSION, attempt_id="other"),
        replace(SUBMISSION, attempt_id="repeat", repeat=1),
        replace(SUBMISSION, attempt_id="arm", arm="b"),
        replace(SUBMISSION, attempt_id="experiment", experiment="later"),
    ]
    together = await asyncio.gather(*(grade_submission(each, lake, twice=False) for each in others))
    for submission in reversed([*others, SUBMISSION]):
        assert (await grade_submission(submission, lake, twice=False)).outcome == "resolved"
    assert ([each.outcome for each in together], len(gradings)) == (["resolved"] * 4, 1)
    for submission in [*others, SUBMISSION]:
        units = lake.units(
            "evaluations", f"{submission.attempt_id}-*", submission.experiment, submission.arm
        )
        [row] = lake.read("evaluations", submission.experiment, submission.arm, *units)
        assert (row["attempt_id"], row["repeat"]) == (submission.attempt_id, submission.repeat)
        assert row["started_at"] == gradings[0].started_at
