"""Is the durable arm worth its cost, on a simulated model? Measures harnesses, not models.

Runs every bundled task once per seed, with `mini` and `durable` on the same simulated skill, then
again with reviewers that guess. The first patch of every durable attempt is also graded on its own,
to count how many wrong ones the arm caught, and by which check. `python -m tests.bench.worth
--seeds 20`.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import yaml

from eval.predictions import write_jsonl
from eval.types import Prediction

BIN = Path(sys.executable).parent
ACCURACIES = {"worth": 0.9, "worth-blind": 0.5}
"""Accuracy of the simulated reviewers, by experiment."""
PROSE = (".md", ".rst", ".txt")


def main() -> None:
    """Run, report, and grade the first patches."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--blind-seeds", type=int, default=20, help="with reviewers that guess")
    parser.add_argument("--skill", type=float, default=0.5)
    parser.add_argument("--environment", default="host", choices=["host", "docker"])
    parser.add_argument("--lake", type=Path, help="kept and gone on with; a temporary one if left")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="durabench-worth-") as folder:
        lake = arguments.lake or Path(folder)
        lake.mkdir(parents=True, exist_ok=True)
        for name, seeds in (("worth", arguments.seeds), ("worth-blind", arguments.blind_seeds)):
            declared = lake / f"{name}.yaml"
            declared.write_text(yaml.safe_dump(experiment(name, seeds, arguments)))
            durabench("run", str(declared), lake=lake)
            print(caught(name, lake, arguments.environment), flush=True)


def experiment(name: str, seeds: int, arguments: argparse.Namespace) -> dict[str, Any]:
    """The declaration."""
    return {
        "name": name,
        "dataset": "bundled",
        "environment": arguments.environment,
        "model": {
            "provider": "simulated",
            "skill": arguments.skill,
            "reviewer_accuracy": ACCURACIES[name],
        },
        "arms": [{"name": "mini", "agent": "mini"}, {"name": "durable", "agent": "durable"}],
        "repeats": seeds,
        "concurrency": 4,
        "primary": {"baseline": "mini", "candidate": "durable"},
        "evaluation_timeout_s": 120,
    }


def durabench(*arguments: str, lake: Path) -> None:
    """Run a command of the project, with its output."""
    subprocess.run([str(BIN / "durabench"), *arguments, "--lake", str(lake)], check=True)


def caught(experiment: str, lake: Path, environment: str) -> str:
    """What became of the first patches of the durable arm, right and wrong ones."""
    firsts = list(first_candidates(experiment, lake))
    verdicts: Counter[tuple[bool, str]] = Counter()
    for repeat in sorted({repeat for repeat, _, _ in firsts}):
        own = [(instance, first) for number, instance, first in firsts if number == repeat]
        resolved = graded(f"{experiment}-first-{repeat}", own, lake, environment)
        verdicts.update((instance in resolved, fate(first)) for instance, first in own)
    wrong = {what: n for (right, what), n in verdicts.items() if not right}
    right = {what: n for (right, what), n in verdicts.items() if right}
    total = sum(wrong.values())
    share = 100 * (total - wrong.get("accepted", 0)) / total if total else 0.0
    return (
        f"{experiment}: {total} of {len(firsts)} first patches are wrong, and {share:.1f} % of "
        f"them are caught: {wrong}; what became of the right ones: {right}"
    )


def first_candidates(experiment: str, lake: Path) -> Iterator[tuple[int, str, dict[str, Any]]]:
    """Repeat, instance, and the first candidate of the first step that changes code."""
    files = f"{lake}/attempts/experiment={experiment}/arm=durable/*.parquet"
    rows = duckdb.sql(f"select repeat, instance_id, report from '{files}' order by all").fetchall()
    for repeat, instance, report in rows:
        for step in json.loads(report or "{}").get("steps", []):
            if not all(path.endswith(PROSE) for path in step["targets"]):
                yield repeat, instance, step["candidates"][0]
                break


def graded(
    name: str, firsts: list[tuple[str, dict[str, Any]]], lake: Path, environment: str
) -> set[str]:
    """The instances whose first patch resolves them."""
    path = lake / f"{name}.jsonl"
    write_jsonl(path, [Prediction(instance, name, first["diff"]) for instance, first in firsts])
    options = ["--name", name, "--environment", environment, "--timeout-s", "120"]
    durabench("grade", str(path), *options, lake=lake)
    files = f"{lake}/evaluations/experiment={name}/**/*.parquet"
    rows = duckdb.sql(f"select instance_id from '{files}' where resolved").fetchall()
    return {instance for (instance,) in rows}


def fate(candidate: dict[str, Any]) -> str:
    """Who caught it, if anybody did."""
    if candidate["status"] != "done":
        return candidate["status"]
    if candidate["broken"]:
        return "by tests"
    return "accepted" if candidate["verdict"] == "accept" else "by review"


if __name__ == "__main__":
    main()
