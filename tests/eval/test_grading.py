"""Patches are graded in the official steps, and every ending has its own outcome."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from eval import grading
from eval.grading import grade, grading_key
from eval.types import Instance

MakeInstance = Callable[..., Instance]

ADD_IS_SUBTRACTION = "test_calc.py::test_add"


async def test_the_reference_patch_is_resolved(
    make_instance: MakeInstance, host_shell: Any, gold: str
) -> None:
    """The verdict records the tests behind it, the log and the conditions of the grading."""
    verdict = await grade(make_instance(), gold, host_shell, timeout_s=60)
    assert (verdict.outcome, verdict.resolved, verdict.reason) == ("resolved", True, "")
    assert verdict.fail_to_pass_success == (ADD_IS_SUBTRACTION,)
    assert len(verdict.pass_to_pass_success) == 2
    assert ">>>>> Start Test Output" in verdict.log
    assert (verdict.environment, verdict.timeout_s) == ("host", 60)
    assert verdict.harness_version.startswith("5.")
    assert verdict.started_at.tzinfo is not None
    assert 0 < verdict.duration_s < 60


async def test_the_empty_patch_is_unresolved(make_instance: MakeInstance, host_shell: Any) -> None:
    """The empty patch applies, as it does officially, and the tests still fail."""
    verdict = await grade(make_instance(), "", host_shell, timeout_s=60)
    assert (verdict.outcome, verdict.resolved) == ("unresolved", False)
    assert (
        verdict.reason == "failing tests that still fail: 1 of 1; passing tests that broke: 0 of 2"
    )


@pytest.mark.parametrize("patch", ["this is no diff\n", "\ud800", "lost: \udce9"])
async def test_a_malformed_patch_does_not_apply(
    make_instance: MakeInstance, host_shell: Any, patch: str
) -> None:
    """A malformed patch is `patch_failed`, and the one-line reason says so."""
    verdict = await grade(make_instance(), patch, host_shell, timeout_s=60)
    assert (verdict.outcome, verdict.resolved) == ("patch_failed", False)
    assert "patch" in verdict.reason
    assert "\n" not in verdict.reason


async def test_tests_that_take_too_long_are_a_timeout(
    make_instance: MakeInstance, host_shell: Any, gold: str
) -> None:
    """A test run that hangs ends as a timeout. The log keeps what it printed before."""
    instance = make_instance(eval_script="echo started\nsleep 60\n")
    verdict = await grade(instance, gold, host_shell, timeout_s=0.5)
    assert (verdict.outcome, verdict.reason) == ("timeout", "the tests took more than 0.5 s")
    assert "started" in verdict.log


@pytest.mark.parametrize(
    ("eval_type", "broken", "outcome"),
    [
        ("pass_and_fail", False, "resolved"),
        ("pass_and_fail", True, "unresolved"),
        ("fail_only", False, "unresolved"),
    ],
)
async def test_a_log_that_was_cut_is_graded_by_its_ends(
    make_instance: MakeInstance,
    host_shell: Any,
    gold: str,
    monkeypatch: pytest.MonkeyPatch,
    eval_type: str,
    broken: bool,
    outcome: str,
) -> None:
    """A patch that floods the log still gets a verdict, from the log's two ends. With `fail_only`
    it is unresolved, because a missing result would count as a pass."""
    monkeypatch.setattr(host_shell, "_limit", 20_000)
    noise = "head -c 100000 /dev/zero | tr '\\0' x; echo\n"
    script = make_instance().eval_script.replace("python -m", f"{noise}python -m")
    patch = gold.replace("+    return", "+    !") if broken else gold
    instance = make_instance(eval_script=script, eval_type=eval_type)
    verdict = await grade(instance, patch, host_shell, timeout_s=60)
    assert (verdict.outcome, verdict.log_is_whole) == (outcome, False)
    assert f"only the first and last {grading.MAX_LOG_BYTES // 2} bytes" in verdict.reason


@pytest.mark.parametrize(
    ("script", "outcome", "reason"),
    [
        ("echo nothing", "unresolved", "no test results in the log"),
        (
            ": '>>>>> Start Test Output'\necho 'no tests ran'\n: '>>>>> End Test Output'",
            "unresolved",
            "no test results in the log (swebench's guess: no_tests_collected)",
        ),
        (
            "echo 'Cannot allocate memory'",
            "unresolved",
            "no test results in the log (swebench's guess: out_of_memory)",
        ),
    ],
)
async def test_a_log_without_results_is_unresolved(
    make_instance: MakeInstance, host_shell: Any, gold: str, script: str, outcome: str, reason: str
) -> None:
    """A log without test results is unresolved, and the reason quotes swebench's guess at the
    cause."""
    instance = make_instance(eval_script=script + "\n")
    verdict = await grade(instance, gold, host_shell, timeout_s=60)
    assert (verdict.outcome, verdict.reason, verdict.resolved) == (outcome, reason, False)


async def test_a_diff_that_is_not_text_is_unresolved(
    make_instance: MakeInstance, host_shell: Any, gold: str
) -> None:
    """A work tree diff that is not UTF-8 is unresolved: the official runner cannot read it
    either."""
    instance = make_instance(eval_script="printf '# caf\\xe9\\n' >> calc.py\n")
    verdict = await grade(instance, gold, host_shell, timeout_s=60)
    assert (verdict.outcome, verdict.resolved) == ("unresolved", False)
    assert "not UTF-8" in verdict.reason


async def test_the_shell_s_own_failure_passes_through(
    make_instance: MakeInstance, host_shell: Any, gold: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A lost workspace raises its own error for the caller to retry; it is not a verdict."""

    async def gone(*_: object, **__: object) -> None:
        raise ConnectionError("the container is gone")

    monkeypatch.setattr(host_shell, "run", gone)
    with pytest.raises(ConnectionError, match="gone"):
        await grade(make_instance(), gold, host_shell)


async def test_the_users_own_git_configuration_is_left_alone(
    make_instance: MakeInstance, host_shell: Any, gold: str, repository: Path
) -> None:
    """On the host, `git config --global` in the script writes to a file of this grading."""
    await grade(make_instance(), gold, host_shell, timeout_s=60)
    written = (repository.parent / "eval.gitconfig").read_text()
    assert f"directory = {repository}" in written


def test_the_key_changes_with_everything_that_can_change_the_verdict(
    make_instance: MakeInstance,
) -> None:
    """Row, image, patch, timeout and environment are all part of the grading key."""
    same = (make_instance(), "sha256:1", "diff", 60.0, "docker")
    other = (make_instance(version="2"), "sha256:2", "diff ", 61.0, "host")
    keys = {grading_key(*same[:n], other[n], *same[n + 1 :]) for n in range(5)}
    assert len(keys | {grading_key(*same)}) == 6
    assert grading_key(*same) == grading_key(make_instance(), "sha256:1", "diff", 60, "docker")
