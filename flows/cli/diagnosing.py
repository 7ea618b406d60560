"""The diagnosis of an attempt in the terminal."""

from flows.display.terminal import show as say
from flows.experiments.diagnosis import Subject, diagnose
from flows.experiments.forking import recorded_attempt


def show(prefix: str, lake_path: str | None) -> None:
    """Print the diagnosis of the attempt whose id begins with `prefix`.

    Raises:
        UsageError: there is no such attempt, or its steps were pruned.
    """
    lake, journal, attempt = recorded_attempt(prefix, lake_path)
    findings = diagnose(Subject(lake, journal, attempt), lake_path)
    say(f"{attempt.arm} on {attempt.instance_id}, attempt {attempt.attempt_id}")
    if not findings:
        say("It is resolved: there is nothing to explain.")
    for finding in findings:
        say(f"\n{finding.title}", "bold")
        for line in finding.lines:
            say(f"  {line}")
        if finding.command:
            say(f"  {finding.command}")
