"""The verdict of a task with own rules, from the output of its tests.

Source code of a row runs in a separate container, which has seen no code under test. So it can
neither harm this machine nor be changed by a patch.
"""

import json
import math
import re
import shlex
from collections.abc import Iterable, Mapping

from eval import harness
from eval.errors import ImageError
from eval.harness import LogReport
from eval.official_shell import OfficialShell
from eval.readers.commands import STREAMS
from eval.readers.harbor import LOGS
from eval.types import CommandOutput, Instance, OpenShell

_FOLDER = "/var/tmp/.reading"  # noqa: S108 - inside our container
_PARSE_TIMEOUT_S = 120.0
_MAX_BYTES = 16 * 2**20
_MARK = "--- durabench: results"
_PASSED = frozenset({"PASS", "PASSED"})
_NEUTRAL = frozenset({"SKIP", "SKIPPED"})
_DURATION = re.compile(
    r"\s*(?:\[\s*[\d.]+\s*m?s\s*\]|\(\s*[\d.]+\s*m?s\s*\))\s*$|\s+in\s+[\d.]+\s+m?sec\b",
    re.IGNORECASE,
)
"""Durations that some runners print as a part of a test's name."""
_CALL_FUNCTION = f"""
import json, sys
names = {{}}
exec(compile(open(sys.argv[1], encoding="utf-8").read(), "log_parser", "exec"), names)
log = open(sys.argv[2], encoding="utf-8", errors="replace").read()
print({_MARK!r} + json.dumps(names["parser"](log)))
"""
_CALL_PROGRAM = f"""
import subprocess, sys
out = sys.argv[1] + ".json"
subprocess.run([sys.executable, *sys.argv[1:], out], check=True)
print({_MARK!r} + open(out, encoding="utf-8").read())
"""


class UnreadableResults(Exception):
    """The results cannot be read. The message is one line. It says nothing about the patch."""


async def read_report(
    instance: Instance, tested: CommandOutput, official: OfficialShell, open_apart: OpenShell | None
) -> LogReport:
    """Return the verdict on the finished tests of an instance with `rules`.

    `open_apart` opens a container with Python and without the patch.

    Raises:
        UnreadableResults: the row's parser failed, or no container for it can be had.
    """
    rules = instance.rules
    assert rules is not None
    start, end = harness.log_markers()
    log = tested.output.partition(start)[2].rpartition(end)[0]
    match rules.kind:
        case "exit_code":
            return LogReport(resolved=tested.exit_code == 0, results_found=True)
        case "reward":
            try:
                reward = await _read_reward(official)
            except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
                odd = "is not one finite number, or contradicts its tests"
                reason = f"the reward in {LOGS} {odd}"
                return LogReport(resolved=False, results_found=False, reason=reason)
            if reward is None:
                reason = f"no reward was written to {LOGS}"
                return LogReport(resolved=False, results_found=False, reason=reason)
            reason = "" if reward in (0, 1) else f"the reward is {reward:g}"
            share = reward if 0 <= reward <= 1 else None
            resolved = rules.resolved_reward <= reward <= 1
            return LogReport(resolved, results_found=True, reason=reason, reward=share)
        case "swebench":
            statuses = harness.parse_log(rules.parser, log)
        case _:
            statuses = await _run_parser(rules.kind, rules.parser, log, open_apart)
    return decide(instance, statuses)


def decide(instance: Instance, statuses: Mapping[str, str]) -> LogReport:
    """Return the verdict on the statuses of tests, by the rules of the instance."""
    assert instance.rules is not None
    missing_fails = instance.rules.missing_fails
    statuses = {_DURATION.sub("", name): status for name, status in statuses.items()}

    def split(names: Iterable[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
        passed, failed = [], []
        for name in names:
            status = statuses.get(_DURATION.sub("", name), "").upper()
            if status in _PASSED:
                passed.append(name)
            elif missing_fails or (status and status not in _NEUTRAL):
                failed.append(name)
        return tuple(passed), tuple(failed)

    repaired, still = split(instance.fail_to_pass)
    unharmed, broken = split(instance.pass_to_pass)
    return LogReport(
        resolved=bool(repaired) and not still and not broken,
        results_found=bool(statuses),
        fail_to_pass_success=repaired,
        fail_to_pass_failure=still,
        pass_to_pass_success=unharmed,
        pass_to_pass_failure=broken,
    )


async def _run_parser(
    kind: str, parser: str, log: str, open_apart: OpenShell | None
) -> dict[str, str]:
    if open_apart is None:
        raise UnreadableResults("the parser of the row runs in a container only: use Docker")
    out, _, err = log.rpartition(f"{STREAMS}\n")
    files = {"log_parser": parser, "log": log}
    call, arguments = _CALL_FUNCTION, ["log_parser", "log"]
    if kind == "program":
        files = {"log_parser": parser, "stdout.log": out, "stderr.log": err}
        call, arguments = _CALL_PROGRAM, ["log_parser", "stdout.log", "stderr.log"]
    try:
        async with open_apart() as shell:
            for name, text in files.items():
                await shell.write(f"{_FOLDER}/{name}", text.encode("utf-8", "replace"))
            paths = [f"{_FOLDER}/{name}" for name in arguments]
            done = await shell.run(
                f"python3 -c {shlex.quote(call)} {shlex.join(paths)}",
                timeout_s=_PARSE_TIMEOUT_S,
                max_output_bytes=_MAX_BYTES,
            )
    except ImageError as error:
        raise UnreadableResults(
            f"the parser of the row needs a container with Python: {error}"
        ) from error
    if done.timed_out:
        raise UnreadableResults(f"the parser of the row took more than {_PARSE_TIMEOUT_S:g} s")
    _, has_ended, results = done.output.rpartition(_MARK)
    if not has_ended:
        last = (done.output.strip().splitlines() or ["no output"])[-1]
        raise UnreadableResults(f"the parser of the row failed: {last}")
    return _read_results(results)


def _read_results(text: str) -> dict[str, str]:
    """Return statuses by test: an object of them, or SWE-bench Pro's list `tests`."""
    try:
        results = json.loads(text)
        if isinstance(results, dict) and isinstance(results.get("tests"), list):
            results = {test["name"]: test["status"] for test in results["tests"]}
        if not isinstance(results, dict):
            raise TypeError
        return {str(name): str(status) for name, status in results.items()}
    except (ValueError, TypeError, KeyError, RecursionError):
        raise UnreadableResults("the parser of the row gives no results by test") from None


async def _read_reward(official: OfficialShell) -> float | None:
    """Return the reward in the files of the tests, or None if there are none.

    As in Harbor, reward.json comes first, and a text in it does not count.
    """
    rewards, text, tests = [
        await official.run(
            f"cat {LOGS}/{name}", timeout_s=_PARSE_TIMEOUT_S, max_output_bytes=_MAX_BYTES
        )
        for name in ("reward.json", "reward.txt", "ctrf.json")
    ]
    if rewards.exit_code == 0:
        values = json.loads(rewards.output)
        [value] = [values["reward"]] if "reward" in values else values.values()
        return _check_finite(value)
    if text.exit_code == 0:
        return _check_finite(float(text.output))
    if tests.exit_code == 0:
        results = json.loads(tests.output)["results"]
        has_passed = 0 < results["summary"]["tests"] == results["summary"]["passed"]
        if has_passed and any(test["status"] != "passed" for test in results.get("tests") or []):
            raise ValueError
        return float(has_passed)
    return None


def _check_finite(reward: float) -> float:
    if not math.isfinite(reward):
        raise ValueError
    return reward
