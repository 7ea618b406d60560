"""Tables that say more than a verdict: repeats, outcomes, tokens, models, declared comparisons."""

from pathlib import Path

import pytest

from flows.formats.imported_arms import Comparisons
from flows.formats.tables import import_table
from flows.storage import report_files
from flows.storage.lake import Lake
from reports.types import Report


def put(tmp_path: Path, text: str, comparisons: Comparisons | None = None) -> Report:
    """Import a table of blank-separated cells and return its report."""
    lines = [",".join(line.split()) for line in text.strip().splitlines()]
    (tmp_path / "t.csv").write_text("\n".join(lines) + "\n")
    import_table(tmp_path / "t.csv", "x", {}, str(tmp_path), comparisons)
    report = report_files.read(Lake.existing(str(tmp_path)), "x")
    assert report.audits == ()
    return report


def states(report: Report) -> dict[tuple[str, str, int], str]:
    return {(cell.arm, cell.instance_id, cell.repeat): cell.state for cell in report.cells}


@pytest.mark.parametrize("first", [0, 1])
def test_repeats_are_cells_of_their_own(first: int, tmp_path: Path) -> None:
    """Repeats count from 0 or 1. An arm is planned as often as its own rows say, and a repeat
    without a row was never run."""
    report = put(
        tmp_path,
        f"""
        arm instance_id resolved repeat
        a x-1 1 {first}
        a x-1 0 {first + 1}
        a x-2 1 {first}
        b x-1 1 {first}
        b x-2 0 {first}
        """,
    )
    assert states(report) == {
        ("a", "x-1", 0): "resolved",
        ("a", "x-1", 1): "unresolved",
        ("a", "x-2", 0): "resolved",
        ("a", "x-2", 1): "missing",
        ("b", "x-1", 0): "resolved",
        ("b", "x-2", 0): "unresolved",
    }
    assert [arm.planned for arm in report.arms] == [4, 2]


def test_outcomes_become_states_and_keep_their_costs(tmp_path: Path) -> None:
    """Each outcome gives the state of its cell, a row without a verdict but with a cost or an
    outcome is not graded, and costs of attempts without a verdict count."""
    report = put(
        tmp_path,
        """
        arm instance_id resolved outcome cost
        a x-1 1 submitted 1
        a x-2 - infrastructure 1
        a x-3 - budget_stop 1
        a x-4 0 no_patch 1
        a x-5 - Timeout 1
        a x-6 0 patch_failed 1
        a x-7 - - 1
        a x-8 0 LimitsExceeded 1
        a x-9 - submitted 1
        a y-1 - out_of_steps 1
        """,
    )
    assert {cell.instance_id: cell.state for cell in report.cells} == {
        "x-1": "resolved",
        "x-2": "infrastructure",
        "x-3": "stopped",
        "x-4": "no_patch",
        "x-5": "timeout",
        "x-6": "patch_failed",
        "x-7": "ungraded",
        "x-8": "unresolved",
        "x-9": "ungraded",
        "y-1": "no_patch",
    }
    [arm] = report.arms
    assert (arm.cost.usd, arm.started, arm.planned) == (10.0, 10, 10)
    ended = {cell.instance_id: cell.outcome for cell in report.cells}
    assert (ended["x-8"], ended["y-1"]) == ("out_of_budget", "out_of_steps")


def test_tokens_durations_repositories_and_difficulties(tmp_path: Path) -> None:
    """Tokens, duration, repository and difficulty are recorded, and are unknown if missing."""
    report = put(
        tmp_path,
        """
        arm instance_id resolved prompt_tokens output_tokens duration_s repo difficulty
        a x__y-1 1 100 10 2.5 mine/own hard
        a x__y-2 0 - - - - -
        """,
    )
    rows = Lake.existing(str(tmp_path)).rows("attempts", "x")
    names = ("input_tokens", "output_tokens", "duration_s", "repo", "difficulty", "model_calls")
    assert [[row[name] for name in names] for row in rows] == [
        [100, 10, 2.5, "mine/own", "hard", None],
        [None, None, None, "x/y", None, None],
    ]
    assert (report.arms[0].tokens.total, report.arms[0].tokens.is_lower_bound) == (110, True)


def test_a_model_and_a_harness_make_an_arm(tmp_path: Path) -> None:
    """Without a name for the arm, each combination of harness and model is one. Two harnesses on
    one model compare the agents alone, and two models do not."""
    report = put(
        tmp_path,
        """
        harness model instance_id resolved
        mini gpt x-1 1
        other gpt x-1 0
        other opus x-1 1
        """,
    )
    assert [(arm.agent, arm.model) for arm in report.arms] == [
        ("mini", "gpt"),
        ("other", "gpt"),
        ("other", "opus"),
    ]
    names = [arm.name for arm in report.arms]
    for first, second, is_alone in ((0, 1, True), (1, 2, False)):
        chosen = report_files.read(Lake.existing(str(tmp_path)), "x", names[first], names[second])
        warned = any("does not compare the agents alone" in note.text for note in chosen.notes)
        assert warned is not is_alone


TABLE = """
    arm instance_id resolved
    A x-1 1
    b x-1 0
    c x-1 1
"""


def test_comparisons_are_declared_by_arm_or_label(tmp_path: Path) -> None:
    """Declared comparisons have their roles, margin and adjusted p-values. They stay when a table
    is imported again, and a change of them is reported and does not count."""
    report = put(tmp_path, TABLE, Comparisons("b:A", 0.1, ("b:c",)))
    roles = {(pair.baseline, pair.candidate): pair.role for pair in report.comparisons}
    assert roles[("b", report.arms[0].name)] == "primary"
    assert sorted(roles.values()) == ["declared", "exploratory", "primary"]
    assert report.source.plan.margin == 0.1
    assert {pair.role for pair in report.comparisons if pair.adjusted_p_value is None} == {
        "exploratory"
    }
    assert any("declared with the import" in note.text for note in report.notes)

    again = put(tmp_path, TABLE.replace("c x-1 1", "c x-1 0"))
    assert again.source.plan == report.source.plan
    changed = put(tmp_path, TABLE, Comparisons("c:A"))
    assert changed.source.plan == report.source.plan
    assert any("changed after results existed" in note.text for note in changed.notes)
