"""The official verdict on a patch, computed in a Durabench workspace.

The steps equal swebench's own `run_instance`: apply the patch by the same commands in
the same order, run the same script, parse the log with the same functions. The official
runner gives a verdict on any log of a script that ran to its end, and so does Durabench. A
patch can write anything into the log, so nothing in the log makes the outcome
`infrastructure`. What the kernel counts does: tests that reach a limit of the container say
nothing about the patch.
"""

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from eval import harness, log_formats
from eval.applied_tree import AppliedTree
from eval.digests import canonical_digest
from eval.evaluation_files import is_watched, tests_of_evaluation
from eval.harness import LogReport
from eval.official_shell import OfficialShell
from eval.own_rules import UnreadableResults, read_report
from eval.resources import shortage
from eval.types import (
    Applied,
    CommandOutput,
    Evaluation,
    EvaluationOutcome,
    GradingShell,
    Instance,
    OpenShell,
)

APPLY_TIMEOUT_S = 300.0
"""Timeout of each command that applies the patch. The official runner has none."""

MAX_LOG_BYTES = 64 * 1024 * 1024
"""Limit of a test log. Only the first and the last half of this size are kept and graded."""

_RESET = "/bin/bash -c 'git checkout -- . ; git clean -fd'"

# The official runner reads the work tree's diff before and after the tests, strictly as UTF-8.
# It ends without a verdict if the diff is not UTF-8: fuzz can place a hunk next to such bytes.
_IS_DIFF_READABLE = (
    "/bin/bash -c 'git -c core.fileMode=false diff | iconv -f UTF-8 -t UTF-8 >/dev/null'"
)
_UNREADABLE = "the work tree's diff is not UTF-8, and the official runner gives up on it"

_PROCEDURE = 3
"""Version of this procedure. Increment it with every change that can change a verdict."""


@dataclass(frozen=True)
class _Verdict:
    outcome: EvaluationOutcome
    reason: str = ""
    log: str = ""
    report: LogReport | None = None
    log_is_whole: bool = True
    applied: Applied | None = None
    rewritten: tuple[str, ...] = ()


async def grade(
    instance: Instance,
    patch: str,
    shell: GradingShell,
    *,
    open_apart: OpenShell | None = None,
    timeout_s: float = 1800.0,
    is_reference_resolved: bool = False,
) -> Evaluation:
    """Grade `patch` in a freshly opened workspace, which the caller closes.

    `open_apart` opens a container with Python, for source code that a row has to read its log.

    `timeout_s` limits the eval script alone, as in the official runner. An outcome of
    `infrastructure` says nothing about the patch. Errors of the shell propagate, unless a limit of
    its container is the cause.

    With `is_reference_resolved`, the reference patch is known to be resolved under the same
    conditions, so that no failure is attributed to a missing network.
    """
    script = instance.eval_script
    if instance.rules is None:
        script = await asyncio.to_thread(harness.eval_script, instance.row)
    started_at, clock = datetime.now(UTC), time.perf_counter()
    official = OfficialShell(shell)
    try:
        verdict = await _verdict(instance, patch, official, script, timeout_s, open_apart)
    except Exception:
        if not shell.limits_reached:
            raise
        verdict = _Verdict("infrastructure")
    verdict = await _respect_limits(verdict, official)
    hint = ""
    if not is_reference_resolved:
        hint = await _network_hint(instance, patch, verdict, official)
    report = verdict.report or LogReport(resolved=False, results_found=False)
    return Evaluation(
        instance_id=instance.instance_id,
        outcome=verdict.outcome,
        resolved=report.resolved,
        environment=shell.environment,
        started_at=started_at,
        duration_s=time.perf_counter() - clock,
        timeout_s=timeout_s,
        harness_version=harness.version(),
        reason="; ".join(filter(None, [verdict.reason, hint])),
        reward=report.reward,
        fail_to_pass_success=report.fail_to_pass_success,
        fail_to_pass_failure=report.fail_to_pass_failure,
        pass_to_pass_success=report.pass_to_pass_success,
        pass_to_pass_failure=report.pass_to_pass_failure,
        log=verdict.log,
        log_is_whole=verdict.log_is_whole,
        is_limited=verdict.outcome == "infrastructure" and bool(official.limits_reached),
        applied=verdict.applied,
        rewritten=verdict.rewritten,
    )


def broken(
    instance: Instance, environment: str, reason: str, *, started_at: datetime, timeout_s: float
) -> Evaluation:
    """Return the record of a grading whose workspace could not be opened or was lost."""
    return Evaluation(
        instance_id=instance.instance_id,
        outcome="infrastructure",
        resolved=False,
        environment=environment,
        started_at=started_at,
        duration_s=(datetime.now(UTC) - started_at).total_seconds(),
        timeout_s=timeout_s,
        harness_version=harness.version(),
        reason=reason,
    )


def grading_key(
    instance: Instance,
    image_digest: str,
    patch: str,
    timeout_s: float,
    environment: str,
    resources: Mapping[str, float] = {},
) -> str:
    """Return a SHA-256 that changes whenever the verdict could change. It covers:

    - the row: its tests, its script and its log parser decide the verdict;
    - the image, by digest: a tag can be moved to another content;
    - the patch, byte by byte: the official result cache omits it and reports stale verdicts;
    - the timeout: a longer one can turn a timeout into a result;
    - the environment: a host workspace has other interpreters and libraries than the image,
      and a script with network access can install packages that an offline one cannot;
    - the `resources` that differ from the default: with more memory, other tests may pass;
    - the swebench release and Durabench's own procedure: both interpret the log.
    """
    parts = {
        "row": instance.digest,
        "image": image_digest,
        "patch": patch,
        "timeout_s": float(timeout_s),
        "environment": environment,
        "harness": harness.version(),
        "procedure": _PROCEDURE,
        **({"resources": dict(resources)} if resources else {}),
    }
    return canonical_digest(parts)


async def _respect_limits(verdict: _Verdict, shell: OfficialShell) -> _Verdict:
    """Return the verdict, or `infrastructure` if a limit of the container may be its reason.

    If the patch is resolved, all tests have passed, and nothing that was killed mattered.
    """
    if verdict.outcome == "resolved":
        return verdict
    if shell.limits_reached:
        reason = shortage(shell.limits_reached)
    elif await shell.is_disk_full():
        reason = "the disk of this machine is full: make room on it"
    else:
        return verdict
    return _Verdict("infrastructure", reason, verdict.log, log_is_whole=verdict.log_is_whole)


async def _verdict(
    instance: Instance,
    patch: str,
    official: OfficialShell,
    script: str,
    timeout_s: float,
    open_apart: OpenShell | None,
) -> _Verdict:
    try:
        await official.write_patch(patch)
    except UnicodeEncodeError:
        return _Verdict("patch_failed", "the patch holds characters that no file can hold")
    tree = AppliedTree(official)
    try:
        await tree.start()
        done = await _apply(official, tree)
        if done.timed_out:
            return _Verdict("infrastructure", "applying the patch took too long", done.output)
        if done.exit_code != 0:
            last_line = (done.output.strip().splitlines() or ["no output"])[-1]
            return _Verdict("patch_failed", f"the patch does not apply: {last_line}", done.output)
        applied = await tree.read()
    except TimeoutError:
        return _Verdict("infrastructure", "reading the work tree took too long")
    tested = await _test(instance, patch, official, script, timeout_s, open_apart)
    return replace(tested, applied=applied)


async def _test(
    instance: Instance,
    patch: str,
    official: OfficialShell,
    script: str,
    timeout_s: float,
    open_apart: OpenShell | None,
) -> _Verdict:
    """Return the verdict on the work tree with the patch."""
    if not await _is_diff_readable(official):
        return _Verdict("unresolved", _UNREADABLE)
    await official.write_script(script, tests_of_evaluation(instance))
    tested = await official.run_script(timeout_s=timeout_s, max_output_bytes=MAX_LOG_BYTES)
    if tested.timed_out:
        return _Verdict("timeout", f"the tests took more than {timeout_s:g} s", tested.output)
    if not await _is_diff_readable(official):
        return _Verdict("unresolved", _UNREADABLE, tested.output)
    try:
        report = await _read(instance, patch, tested, official, open_apart)
    except UnreadableResults as error:
        return _Verdict("infrastructure", str(error), tested.output)
    verdict = _Verdict("resolved", "", tested.output, report)
    if not report.resolved:
        verdict = _Verdict("unresolved", _why_unresolved(report), tested.output, report)
    if report.resolved and is_watched(script):
        verdict = replace(verdict, rewritten=await official.read_rewritten())
    return _adjust_to_part(verdict, instance) if tested.truncated else verdict


async def _read(
    instance: Instance,
    patch: str,
    tested: CommandOutput,
    official: OfficialShell,
    open_apart: OpenShell | None,
) -> LogReport:
    if instance.rules is None:
        return await asyncio.to_thread(harness.report, instance.row, patch, tested.output)
    return await read_report(instance, tested, official, open_apart)


async def _apply(official: OfficialShell, tree: AppliedTree) -> CommandOutput:
    """Try the official apply commands in turn until one succeeds or times out.

    A failed command can leave changes (`--reject` applies the hunks that fit), so the tree is
    reset before the next one. If all fail but the reverse patch applies, the tree already
    contains the patch, which counts as success. Return the output of the deciding command.
    """
    for attempt, command in enumerate(harness.apply_commands()):
        if attempt:
            await official.run(_RESET, timeout_s=APPLY_TIMEOUT_S)
            await tree.reset()
        result = await official.run(f"{command} {official.patch_file}", timeout_s=APPLY_TIMEOUT_S)
        if result.exit_code == 0 or result.timed_out:
            return result
    check = f"git apply --check --reverse {official.patch_file}"
    reverse = await official.run(check, timeout_s=APPLY_TIMEOUT_S)
    return reverse if reverse.exit_code == 0 else result


async def _is_diff_readable(official: OfficialShell) -> bool:
    checked = await official.run(_IS_DIFF_READABLE, timeout_s=APPLY_TIMEOUT_S)
    return checked.exit_code != 1  # an image without iconv answers 127


def _adjust_to_part(verdict: _Verdict, instance: Instance) -> _Verdict:
    """Adjust the verdict on a log whose middle was not kept.

    The markers and totals are at the ends of the log, and a test without a result does not
    count as passed, so the omitted part can only hide results. With `fail_only`, a missing
    result counts as a pass, so such a log proves nothing and the instance is unresolved.
    """
    part = f"of the test log only the first and last {MAX_LOG_BYTES // 2} bytes were read"
    reason = f"{verdict.reason}; {part}" if verdict.reason else part
    if verdict.outcome == "resolved" and instance.eval_type == "fail_only":
        report = LogReport(resolved=False, results_found=False)
        return _Verdict("unresolved", reason, verdict.log, report, log_is_whole=False)
    return replace(verdict, reason=reason, log_is_whole=False)


def _why_unresolved(report: LogReport) -> str:
    if report.reason:
        return report.reason
    if not report.results_found:
        advice = f" (swebench's guess: {report.advice})" if report.advice else ""
        return f"no test results in the log{advice}"
    if not (report.fail_to_pass_success or report.fail_to_pass_failure):
        return report.advice or "the tests failed"
    still, broken = len(report.fail_to_pass_failure), len(report.pass_to_pass_failure)
    of_failing = still + len(report.fail_to_pass_success)
    of_passing = broken + len(report.pass_to_pass_success)
    return (
        f"failing tests that still fail: {still} of {of_failing}; "
        f"passing tests that broke: {broken} of {of_passing}"
    )


async def _network_hint(
    instance: Instance, patch: str, verdict: _Verdict, official: OfficialShell
) -> str:
    """Return advice to give the container a network if its absence may be the cause, or `""`.

    Many scripts try to install packages and work without them. So for an ordinary patch the
    hint is given only if no test has a result, and not for the lines of an installer alone.
    """
    if verdict.outcome not in ("unresolved", "timeout"):
        return ""
    is_gold = patch.strip() == instance.patch.strip()
    if not is_gold and verdict.report is not None and verdict.report.results_found:
        return ""
    line = log_formats.find_network_failure(verdict.log, of_pip=is_gold)
    if not line or not await official.is_offline():
        return ""
    wanted = f"the container has no network and the log shows a use of it ({line})"
    advice = "`--network`, or `network: true` in an experiment"
    if is_gold:
        return f"{wanted}: try {advice}"
    return f"{wanted}: if the reference patch fails here too, use {advice}"
