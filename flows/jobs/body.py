"""The text of a pull request: the review report of a job.

Text of the author of an issue, an arm or a test is quoted, so that it stays text on the forge.
"""

import json
import re
from typing import Any

from flows.jobs.changes import find_automation, read_changes
from flows.jobs.rows import say_verdict
from flows.storage.lake import Row
from reports.quoting import quote_block, quote_code, quote_text

_QUOTED_CHARACTERS = 4_000
_PART_CHARACTERS = 7_000
"""Characters of one of the nine parts. Forges refuse a text of more than 65,536 in all."""


def body(row: Row, moved_to: str) -> str:
    """Return the report of a job in Markdown.

    `moved_to` is the head of its base branch if that has moved, otherwise ''.
    """
    statement = row["statement"].strip()
    task = statement[:_QUOTED_CHARACTERS] + ("\n…" if len(statement) > _QUOTED_CHARACTERS else "")
    parts = [
        f"**Verification: {say_verdict(row['verdict'])}** – {quote_text(row['reason'])}",
        _section("Task", quote_block(task)),
        *_steps(row),
        _changes(row),
        _section("Verification", _verification(row)),
        _section("Cost", _cost(row)),
        _section(
            "How to continue",
            f'`durabench job revise {row["job_id"]} "what to change"` adds a commit to this '
            f"branch, and `durabench trace {(row['attempt_id'] or '')[:12]}` shows each step.",
        ),
    ]
    if files := find_automation(row["patch"]):
        head = "**The patch changes files that run by themselves, with the secrets of the "
        lines = [f"- {quote_code(path)}: {what}" for path, what in files]
        parts.insert(1, "\n".join([f"{head}repository:**", "", *lines]))
    if moved_to:
        parts.insert(
            1,
            f"The branch {quote_code(row['base_branch'])} has moved since the work started: "
            f"it was at {row['base_commit'][:12]} and is at {moved_to[:12]}.",
        )
    return "\n\n".join(map(_cut, parts)) + "\n"


def _cut(part: str) -> str:
    """Return a part of a report with at most `_PART_CHARACTERS`, and a count of lines left out."""
    if len(part) <= _PART_CHARACTERS:
        return part
    text = part[: _PART_CHARACTERS - 200]
    text = text.rpartition("\n")[0] or text
    fences = re.findall(r"^`{3,}", text, re.MULTILINE)
    close = f"\n{fences[0]}" if len(fences) % 2 else ""
    more = part.count("\n") - text.count("\n")
    return f"{text}{close}\n\n… {more:,} more lines"


def _section(title: str, text: str) -> str:
    return f"### {title}\n\n{text}"


def _changes(row: Row) -> str:
    """Return the section about the changes, or the answer of a job without any."""
    if answer := json.loads(row["verification"]).get("answer"):
        return _section("Answer", quote_block(answer))
    lines = ["| file | added | removed |", "|---|---|---|"]
    for path, added, removed in read_changes(row["patch"]):
        in_table = quote_code(path).replace("|", "\\|")
        lines.append(f"| {in_table} | {added} | {removed} |")
    return _section("Changes", "\n".join(lines))


def _steps(row: Row) -> list[str]:
    """Return the section about the steps of a pipeline; none for a job without steps."""
    steps = json.loads(row["verification"]).get("steps") or []
    if not steps:
        return []
    lines = ["| step | state | verification | agent | |", "|---|---|---|---|---|"]
    for step in steps:
        verdict = say_verdict(step["verdict"])
        arm, detail = quote_text(step["arm"] or ""), quote_text(step["detail"])
        lines.append(
            f"| {quote_text(step['name'])} | {step['state']} | {verdict} | {arm} | {detail} |"
        )
    return [_section("Steps", "\n".join(lines))]


def _verification(row: Row) -> str:
    if row["verify_command"] is None:
        return "None was asked for."
    evidence = json.loads(row["verification"])
    lines = [
        f"{quote_code(row['verify_command'])} in fresh workspaces:",
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
    if evidence.get("at_base"):
        lines.append(_run("with the tests of the patch, without its code", evidence["at_base"]))
    if evidence["warnings"]:
        warnings = quote_block("\n".join(evidence["warnings"]))
        lines += ["", "New warnings of linters and type checks:", "", warnings]
    return "\n".join(lines)


def _run(name: str, run: dict[str, Any] | None) -> str:
    if run is None:
        return f"| {name} | not run | | | |"
    failed = len(run["failed"]) + len(run["errors"])
    has_names = run["passed"] or failed or run["skipped"]
    counts = (len(run["passed"]), failed, len(run["skipped"])) if has_names else ("", "", "")
    return f"| {name} | {run['exit_code']} | {' | '.join(map(str, counts))} |"


def _cost(row: Row) -> str:
    evidence = json.loads(row["verification"])
    lines = [] if evidence.get("steps") else [f"Agent {quote_code(row['arm'])} was chosen."]
    if verdict := evidence.get("agent_verdict"):
        lines.append(f"Its own verdict: {quote_text(verdict)}.")
    if rules := evidence.get("agent_rules"):
        lines.append(f"The agents had the rules of {', '.join(map(quote_code, rules))}.")
    cost = "unknown" if row["cost_usd"] is None else f"{row['cost_usd']:.4f} USD"
    lines.append(f"Cost of all agents: {cost}.")
    if row["input_tokens"] is not None and row["output_tokens"] is not None:
        lines.append(f"Tokens: {row['input_tokens']:,} in, {row['output_tokens']:,} out.")
    return " ".join(lines)
