"""The text of a pull request: the review report of a job."""

import json
from typing import Any

from flows.jobs.verification import Verdict
from flows.storage.exact import make_readable
from flows.storage.lake import Row

_QUOTED_CHARACTERS = 4_000
_VERDICTS: dict[Verdict, str] = {
    "verified": "verified",
    "regressed": "regressed",
    "not_verified": "not verified",
}


def body(row: Row, moved_to: str) -> str:
    """Return the report of a job in Markdown.

    `moved_to` is the head of its base branch if that has moved, otherwise ''.
    """
    parts = [
        f"**Verification: {_VERDICTS[row['verdict']]}** – {row['reason']}",
        _section("Task", _quoted(row["statement"])),
        *_steps(row),
        _section("Changes", _changes(row["patch"])),
        _section("Verification", _verification(row)),
        _section("Cost", _cost(row)),
        _section("How to continue", _next(row)),
    ]
    if moved_to:
        parts.insert(
            1,
            f"The branch `{row['base_branch']}` has moved since the work began: it was at "
            f"{row['base_commit'][:12]} and is at {moved_to[:12]}.",
        )
    return "\n\n".join(parts) + "\n"


def _section(title: str, text: str) -> str:
    return f"### {title}\n\n{text}"


def _quoted(text: str) -> str:
    shown = text.strip()[:_QUOTED_CHARACTERS]
    more = "\n…" if len(text.strip()) > _QUOTED_CHARACTERS else ""
    return "\n".join(f"> {line}".rstrip() for line in f"{shown}{more}".splitlines())


def _steps(row: Row) -> list[str]:
    """Return the section about the steps of a pipeline; none for a job without steps."""
    steps = json.loads(row["verification"]).get("steps") or []
    if not steps:
        return []
    lines = ["| step | state | verification | arm | |", "|---|---|---|---|---|"]
    for step in steps:
        verdict = _VERDICTS[step["verdict"]] if step["verdict"] else ""
        detail = " ".join(step["detail"].split()).replace("|", "\\|")
        lines.append(
            f"| {step['name']} | {step['state']} | {verdict} | {step['arm'] or ''} | {detail} |"
        )
    return [_section("Steps", "\n".join(lines))]


def _changes(patch: str) -> str:
    """Return the changed files with their numbers of added and removed lines."""
    lines = ["| file | added | removed |", "|---|---|---|"]
    for path, added, removed in changed_files(patch):
        lines.append(f"| `{path}` | {added} | {removed} |")
    return "\n".join(lines)


def changed_files(patch: str) -> list[tuple[str, int, int]]:
    """Return path, added and removed lines of each file of a patch."""
    found: list[list[Any]] = []
    in_hunk = False
    for line in make_readable(patch).splitlines():
        if line.startswith("diff --git "):
            found.append([line.rpartition(" b/")[2], 0, 0])
            in_hunk = False
        elif line.startswith("@@"):
            in_hunk = True
        elif in_hunk and found:
            found[-1][1] += line.startswith("+")
            found[-1][2] += line.startswith("-")
    return [(path, added, removed) for path, added, removed in found]


def _verification(row: Row) -> str:
    if row["verify_command"] is None:
        return "None was asked for."
    evidence = json.loads(row["verification"])
    lines = [
        f"`{row['verify_command']}` in fresh workspaces:",
        "",
        "| | exit code | passed | failed | skipped |",
        "|---|---|---|---|---|",
        _run("at the base commit", evidence["before"]),
        _run("with the patch", evidence["after"]),
    ]
    if evidence["with_old_tests"]:
        lines.append(
            _run("with the patch and the tests of the base commit", evidence["with_old_tests"])
        )
    if evidence["warnings"]:
        lines += ["", "New warnings of linters and type checks:", "", "```"]
        lines += [line.replace("```", "'''") for line in evidence["warnings"]] + ["```"]
    return "\n".join(lines)


def _run(name: str, run: dict[str, Any] | None) -> str:
    if run is None:
        return f"| {name} | not run | | | |"
    failed = len(run["failed"]) + len(run["errors"])
    named = run["passed"] or failed or run["skipped"]
    counts = (len(run["passed"]), failed, len(run["skipped"])) if named else ("", "", "")
    return f"| {name} | {run['exit_code']} | {' | '.join(map(str, counts))} |"


def _cost(row: Row) -> str:
    evidence = json.loads(row["verification"])
    lines = [] if evidence.get("steps") else [f"Arm `{row['arm']}` was chosen."]
    judged = evidence.get("agent_verdict")
    if judged:
        lines.append(f"Its own verdict: {judged}.")
    cost = "unknown" if row["cost_usd"] is None else f"{row['cost_usd']:.4f} USD"
    lines.append(f"Cost of all arms: {cost}.")
    if row["input_tokens"] is not None and row["output_tokens"] is not None:
        lines.append(f"Tokens: {row['input_tokens']:,} in, {row['output_tokens']:,} out.")
    return " ".join(lines)


def _next(row: Row) -> str:
    return (
        f'`durabench job revise {row["job_id"]} "what to change"` adds a commit to this branch, '
        f"and `durabench trace {(row['attempt_id'] or '')[:12]}` shows each step."
    )
