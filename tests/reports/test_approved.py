"""Reports of made-up experiments are, word for word, those that were read and approved.

`python -m tests.reports.test_approved` writes them again. Read the difference before a commit.
"""

from collections.abc import Callable
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from reports.build import build
from reports.rendering import markdown
from tests.reports.lake_fixture import LakeBuilder
from tests.reports.many_arms import fill

APPROVED = Path(__file__).parent / "approved"

ARMS = {"mini": "mini", "lean": "durable", "full": "durable", "gold": "gold"}
"""Arms and their agents."""


def write_declared(lake: LakeBuilder) -> None:
    """Write an experiment with a declared family, a margin and a value of a resolved instance."""
    write(
        lake,
        instances=24,
        repeats=1,
        primary_baseline="mini",
        primary_candidate="full",
        primary_margin=0.1,
        family=[{"baseline": "mini", "candidate": "lean"}],
        willingness_to_pay=3.0,
    )


def write_repeats(lake: LakeBuilder) -> None:
    """Write an experiment that declares nothing and repeats its instances."""
    write(lake, instances=10, repeats=3)


def write_many(lake: LakeBuilder) -> None:
    """Write an import of many arms with long names."""
    fill(lake, 9, 24, priced=True)


def write_planned(lake: LakeBuilder) -> None:
    """Write an experiment that has not begun."""
    lake.declare(["a", "b"], ["i1", "i2"])


def write(lake: LakeBuilder, instances: int, repeats: int, **declared: Any) -> None:
    """Write cells with every kind of outcome, cost and verdict."""
    random = Random(7)
    names = [f"made__up{number % 5}-{number:03d}" for number in range(instances)]
    for order, (arm, agent) in enumerate(ARMS.items()):
        model = {"gold": "none"}.get(arm, f"maker/m{order % 2}")
        base = "mini" if arm == "full" else None
        kind = {"agent": agent, "model": model}
        lake.declare(
            [arm], names, arm_order=order, repeats=repeats, derived_from=base, **kind, **declared
        )
        for number, instance in enumerate(names):
            for repeat in range(repeats):
                write_cell(lake, random, arm, instance, number, repeat=repeat, **kind)


def write_cell(
    lake: LakeBuilder, random: Random, arm: str, instance: str, number: int, **columns: Any
) -> None:
    """Write one cell: sometimes lost, stopped, ungraded, without a price or graded twice."""
    order, chance, is_gold = [*ARMS].index(arm), random.random(), arm == "gold"
    cost = 0.0 if is_gold else round(0.1 * (order + 1) * (0.3 + 5 * random.random() ** 3), 4)
    columns |= {
        "repo": f"made/up{number % 5}",
        "difficulty": ["easy", "hard", None][number % 3],
        "order_in_instance": (number + order) % len(ARMS),
        "duration_s": 5 + 10 * random.random(),
        "model_calls": 0 if is_gold else random.randint(2, 40),
        "cost_usd": cost,
        "billed_usd": cost * (1.1 if chance < 0.2 else 1),
    }
    if chance > 0.96 and not is_gold:
        columns |= {"cost_usd": None, "billed_usd": None, "unpriced_calls": columns["model_calls"]}
    elif chance > 0.92 and not is_gold:
        columns["unpriced_calls"] = 1
    if arm == "full":
        columns |= {"base_attempt_id": "x", "reused_calls": 1, "reused_usd": 0.01}
    if chance < 0.03:
        return
    if chance < 0.06:
        lake.attempt(arm, instance, outcome="infrastructure", detail="no image", **columns)
        return
    if chance < 0.09:
        lake.attempt(arm, instance, outcome="budget_stop", detail="budget", **columns)
        return
    if chance < 0.13:
        lake.attempt(arm, instance, outcome="out_of_steps", **columns)
        return
    columns |= {"workflow_status": "completed", "agent_verdict": "accepted", "reproduced": True}
    attempt = lake.attempt(arm, instance, **columns)
    repeat = columns["repeat"]
    lake.predict(arm, instance, attempt, repeat=repeat)
    if chance < 0.16:
        return
    is_resolved = is_gold or random.random() < 0.3 + 0.13 * order
    outcome = "resolved" if is_resolved else random.choice(["unresolved"] * 3 + ["timeout"])
    is_suspect = is_resolved and random.random() < 0.1
    lake.evaluate(
        arm,
        instance,
        attempt,
        outcome,
        repeat=repeat,
        audited_verdict="suspect" if is_suspect else outcome,
        audit_reasons=["tests_changed: x"] if is_suspect else [],
        fail_to_pass_failure=["t"] if not is_resolved and number % 2 else [],
        pass_to_pass_failure=["u"] if not is_resolved and number % 3 == 0 else [],
    )
    if number % 6 == 0:
        again = "unresolved" if number % 12 == 0 else outcome
        lake.evaluate(arm, instance, attempt, again, later_s=500, repeat=repeat)
    if number % 3 == 0:
        roles = [("solver", "", 0.01), ("reviewer", "plan", None), ("solver", "work/1", 0.02)]
        cell = {"attempt_id": attempt, "instance_id": instance, "repeat": repeat}
        calls = [
            lake.call(**cell, seq=100 + place, role=role, scope=scope, cost_usd=usd)
            for place, (role, scope, usd) in enumerate(roles)
        ]
        lake.write("llm_calls", arm, calls)


LAKES: dict[str, Callable[[LakeBuilder], None]] = {
    "declared": write_declared,
    "repeats": write_repeats,
    "many": write_many,
    "planned": write_planned,
}


def render(name: str, folder: Path) -> str:
    """Return the report of a lake as Markdown, with what only a terminal shows."""
    lake = LakeBuilder(folder)
    LAKES[name](lake)
    report = build(folder, "trial")
    brief = [line for section in report.sections for line in (*section.brief, *section.advice)]
    return markdown.render(report) + "".join(f"\n- {line}\n" for line in brief)


@pytest.mark.parametrize("name", LAKES)
def test_a_report_is_the_approved_one(name: str, tmp_path: Path) -> None:
    """Every sentence and every number of a report is as approved."""
    approved = (APPROVED / f"{name}.md").read_text(encoding="utf-8")
    assert render(name, tmp_path) == approved


if __name__ == "__main__":
    for name in LAKES:
        with TemporaryDirectory() as folder:
            (APPROVED / f"{name}.md").write_text(render(name, Path(folder)), encoding="utf-8")
