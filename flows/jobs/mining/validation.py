"""The tests that a change repairs or keeps, and leaks of its image."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass

from agent.errors import Unfit
from eval import grading, harness, history
from eval.errors import ImageError
from eval.preflight import TIMEOUT_S, find_copies
from eval.types import GradingShell, Instance
from flows.experiments import workspaces
from flows.experiments.cells import Place

Results = Mapping[str, bool]
"""The tests of a run; True for those with a pass."""


class Dropped(Exception):
    """A change cannot be a task. The message is the reason, the same for all such changes."""


@dataclass(frozen=True)
class Tests:
    """The tests of a task."""

    __test__ = False  # not a test class, despite its name

    fail_to_pass: list[str]
    pass_to_pass: list[str]
    flaky: int
    """Tests that are left out, because two runs differ."""


async def find_tests(draft: Instance, place: Place) -> Tests:
    """Run the evaluation of a draft twice without and twice with its patch. Return its tests.

    Raises:
        Dropped: the change repairs no test, or its tests cannot be run.
        ImageError: infrastructure failed, so that nothing is known.
        WorkspaceError: no workspace can be opened.
    """
    first = [await _run(draft, patch, place) for patch in ("", draft.patch)]
    compare_runs([first])
    return compare_runs([first, [await _run(draft, patch, place) for patch in ("", draft.patch)]])


def compare_runs(rounds: Sequence[Sequence[Results]]) -> Tests:
    """Return the tests of a task, from rounds of two runs: before and after its change.

    Raises:
        Dropped: the change repairs no test, or only flaky ones.
    """
    before, after = zip(*rounds, strict=True)
    every = {test for run in (*before, *after) for test in run}
    flaky = {
        test
        for test in every
        for runs in (before, after)
        if len({bool(run.get(test)) for run in runs}) > 1
    }
    passing = {test for test in every if all(run.get(test) for run in after)}
    stay = {test for test in passing if all(run.get(test) for run in before)}
    repaired = passing - stay - flaky
    if not repaired:
        raise Dropped(
            "the tests that it repairs are flaky"
            if flaky
            else "no test fails before the change and passes after it"
        )
    return Tests(sorted(repaired), sorted(stay), len(flaky))


async def refuse_leaks(instance: Instance, place: Place) -> None:
    """Check that the image of a task holds nothing of its solution, as an arm gets the image.

    Raises:
        Dropped: it does, or no arm can work in it.
        ImageError: the image cannot be searched.
        WorkspaceError: no workspace can be opened.
    """
    try:
        async with _open(instance, place, is_for_grading=False) as shell:
            leaks = await history.inspect(shell, instance.base_commit)
            copies = await find_copies(shell, instance.patch)
    except Unfit as error:
        raise Dropped(f"no arm can work in its image: {error}") from None
    if leaks:
        raise Dropped(f"its image has commits that are newer ({leaks[0].where})")
    if copies:
        raise Dropped("its image has a copy of the patch")


def _open(
    instance: Instance, place: Place, *, is_for_grading: bool
) -> AbstractAsyncContextManager[GradingShell]:
    purpose = f"mine-{instance.instance_id}"
    return workspaces.workspace(instance, place, purpose, grading=is_for_grading)


async def _run(draft: Instance, patch: str, place: Place) -> Results:
    """Return whether each test passes with a patch."""
    async with _open(draft, place, is_for_grading=True) as shell:
        graded = await grading.grade(draft, patch, shell, timeout_s=TIMEOUT_S)
    if graded.outcome == "infrastructure":
        raise ImageError(f"{draft.instance_id} cannot be tested: {graded.reason}")
    if graded.outcome == "patch_failed":
        raise Dropped("its patch does not apply")
    if graded.outcome == "timeout":
        raise Dropped(f"its tests take longer than {TIMEOUT_S / 60:.0f} minutes")
    results = harness.read_statuses(draft.row, graded.log)
    if patch and not results:
        raise Dropped(f"no test has a result after the change ({_read_last_line(graded.log)})")
    return results


def _read_last_line(log: str) -> str:
    """Return the last line of the tests in a log, which often has the cause."""
    start, end = harness.log_markers()
    lines = log.partition(start)[2].partition(end)[0].splitlines()
    lines = [line.strip() for line in lines if line.strip() and not line.startswith("+ ")]
    return lines[-1][:100] if lines else "the test files of the change do not apply"
