"""Is the durable arm worth its cost on a simulated model? This measures harnesses, not models.

Every bundled task, as often as there are seeds: on a model that errs half of the time, on one that
is right at once (the best path), on one that is right while its own test is wrong (a stuck
attempt), and with each part of the durable arm switched off or on (the ablation). Prints the tables
of `reports/MEASUREMENTS.md`. Exit code 1: a target is missed. `python -m tests.bench.worth`.
"""

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import yaml

from flows.experiments.declaration import BUILT_IN

BIN = Path(sys.executable).parent

MINI = {"name": "mini", "agent": "mini"}
RETRY = {"name": "mini-retry", "agent": "mini_retry"}
LEAN = {"name": "lean", "agent": "durable"}
FULL = {"name": "full", "agent": "durable", "options": {"profile": {"preset": "full"}}}

RIGHT = {
    "skill": 1,
    "wrong_anchors": 0,
    "overspecified_anchors": 0,
    "flaky_anchors": 0,
    "conflict_claims": 0,
}
STUCK = {**RIGHT, "wrong_anchors": 1, "insight": 0}
"""The test's author never doubts its own test, which no correct change passes."""

BEST_PATH, AVERAGE, STUCK_ATTEMPT = 2.5, 4.0, 6.0
"""Maximum costs of the lean preset, in multiples of mini's cost."""


@dataclass(frozen=True)
class Arm:
    """The results of one arm in one experiment."""

    name: str
    attempts: int
    resolved: int
    usd: float
    """Mean cost of an attempt."""
    calls: float
    """Mean number of model calls of an attempt."""

    @property
    def rate(self) -> float:
        return self.resolved / self.attempts


def main() -> int:
    """Run the experiments, print the tables, and compare with the targets."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=20, help="attempts per task and arm")
    parser.add_argument("--ablation-seeds", type=int, default=20)
    parser.add_argument("--environment", default="host", choices=["host", "docker"])
    parser.add_argument("--lake", type=Path, help="a lake to keep, and to resume in")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="durabench-worth-") as folder:
        lake = arguments.lake or Path(folder)
        lake.mkdir(parents=True, exist_ok=True)
        results = {}
        for declared in experiments(arguments):
            run(declared, lake)
            results[declared["name"]] = arms_of(declared, lake)
            print(f"\n{declared['name']}\n\n{table(results[declared['name']])}", flush=True)
    missed = list(misses(results))
    print("\n".join(["", *missed]) if missed else "\nevery target is met")
    return 1 if missed else 0


def experiments(arguments: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Yield the declarations: skill 0.5, best path, stuck attempt, and both ablations."""
    strong, weak = (
        yaml.safe_load((BUILT_IN / f"{name}.yaml").read_text())
        for name in ("ablation", "ablation_weak")
    )
    seeds = {"environment": arguments.environment, "repeats": arguments.seeds}
    bare = {key: value for key, value in strong.items() if key not in ("primary", "family")}
    cases: list[tuple[str, dict[str, Any], list[dict[str, Any]]]] = [
        ("worth", {"skill": 0.5}, [MINI, RETRY, LEAN, FULL]),
        ("worth-best", RIGHT, [MINI, LEAN]),
        ("worth-stuck", STUCK, [MINI, LEAN]),
    ]
    for name, changes, arms in cases:
        model = {**strong["model"], **changes}
        yield {**bare, **seeds, "name": name, "model": model, "arms": arms}
    for ablation in (strong, weak):
        yield {**ablation, **seeds, "repeats": arguments.ablation_seeds}


def run(declared: Mapping[str, Any], lake: Path) -> None:
    """Run an experiment. Finished attempts are kept."""
    path = lake / f"{declared['name']}.yaml"
    path.write_text(yaml.safe_dump(dict(declared)))
    on_host = [sys.executable, "-m", "tests.bench.remembering"]
    program = on_host if declared["environment"] == "host" else [str(BIN / "durabench")]
    subprocess.run([*program, "run", str(path), "--lake", str(lake)], check=True)


def arms_of(declared: Mapping[str, Any], lake: Path) -> list[Arm]:
    """Return the results of an experiment, in the order of its arms."""
    attempts, evaluations = (
        f"'{lake}/{each}/experiment={declared['name']}/**/*.parquet'"
        for each in ("attempts", "evaluations")
    )
    rows = duckdb.sql(
        "select arm, count(*), count(*) filter (resolved), avg(cost_usd), avg(model_calls) "
        f"from {attempts} attempt left join (select attempt_id, resolved from {evaluations}) "
        "using (attempt_id) group by arm"
    ).fetchall()
    found = {row[0]: Arm(*row) for row in rows}
    return [found[arm["name"]] for arm in declared["arms"]]


def table(arms: Iterable[Arm]) -> str:
    """Return the results as a Markdown table, with costs in multiples of the first arm's."""
    first, *others = arms
    lines = [
        "| arm | resolved | rate | model calls | cost per attempt | × mini |",
        "|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {arm.name} | {arm.resolved} of {arm.attempts} | {100 * arm.rate:.0f} % "
        f"| {arm.calls:.1f} | ${arm.usd:.3f} | {arm.usd / first.usd:.2f} |"
        for arm in (first, *others)
    ]
    return "\n".join(lines)


def misses(results: Mapping[str, list[Arm]]) -> Iterator[str]:
    """Yield one line for each target that is missed."""
    for experiment, most in (
        ("worth-best", BEST_PATH),
        ("worth", AVERAGE),
        ("worth-stuck", STUCK_ATTEMPT),
    ):
        arms = {arm.name: arm for arm in results[experiment]}
        ratio = arms["lean"].usd / arms["mini"].usd
        if ratio > most:
            yield f"missed: {experiment}: lean costs {ratio:.2f} times mini, at most {most:g}"
    stuck = {arm.name: arm for arm in results["worth-stuck"]}["lean"]
    if stuck.resolved < stuck.attempts:
        yield f"missed: worth-stuck: {stuck.resolved} of {stuck.attempts} right patches submitted"
    arms = {arm.name: arm for arm in results["worth"]}
    if arms["lean"].rate < arms["full"].rate:
        yield "missed: worth: lean resolves less than full"


if __name__ == "__main__":
    sys.exit(main())
