"""What does each capability cost on a simulated model? This measures harnesses, not models.

Every bundled task, as often as there are seeds, for each arm of `flows/experiments/
capabilities.yaml` on host workspaces. Checks that programs need fewer calls at equal skill. Prints
the table of `reports/MEASUREMENTS.md`. Exit code 1: a check failed.
"""

import argparse
import math
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml
from scipy.stats import binomtest

from agent.journal import Limit
from flows.experiments.declaration import BUILT_IN
from flows.storage.journals import open_journal
from flows.storage.lake import Lake
from tests.bench.worth import arms_of, run, table

SAME_SKILL = ("loop-ptc", "loop-subagents", "loop-cells")
"""Arms that change the same as the arm `loop` does."""

CHANCE = 0.01
"""The p-value below which a difference of resolved tasks is no chance."""


def main() -> int:
    """Run the experiment, print its table, and check it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=20, help="attempts per task and arm")
    parser.add_argument("--tasks", type=int, help="a sample of the tasks; default all")
    parser.add_argument("--lake", type=Path, help="a lake to keep, and to resume in")
    arguments = parser.parse_args()
    declared = yaml.safe_load((BUILT_IN / "capabilities.yaml").read_text("utf-8"))
    declared |= {"environment": "host", "repeats": arguments.seeds}
    if arguments.tasks:
        declared["select"] = {"sample": arguments.tasks}
    with tempfile.TemporaryDirectory(prefix="durabench-capabilities-") as folder:
        lake = arguments.lake or Path(folder)
        lake.mkdir(parents=True, exist_ok=True)
        run(declared, lake)
        print(f"\n{table(arms_of(declared, lake))}\n", flush=True)
        found = Lake.existing(lake)
        print(total(found, declared))
        print("\n".join(compared(found, declared)))
        wrong = list(worse(found, declared))
    print("\n".join(["", *wrong]) if wrong else "\nevery check holds")
    return 1 if wrong else 0


def total(lake: Lake, declared: Mapping[str, Any]) -> str:
    """Return the sum over all calls beside the ledger's."""
    name = declared["name"]
    calls = lake.rows("llm_calls", name)
    usd, number = open_journal(lake).spent(Limit("experiment", name, None, None))
    own = math.fsum(call["cost_usd"] for call in calls)
    return f"{len(calls):,} calls of ${own:.6f}; in the ledger {number:,} of ${usd:.6f}"


def compared(lake: Lake, declared: Mapping[str, Any]) -> Iterator[str]:
    """Yield one line for each capability: its pairs with the arm `loop`."""
    pairs = _pairs(lake, declared)
    for arm, found in pairs.items():
        only_loop, only_arm, p = _discordant(found)
        fewer = sum(theirs["calls"] < own["calls"] for own, theirs in found)
        yield (
            f"{arm} against loop: fewer calls in {fewer} of {len(found)} pairs; resolved by one "
            f"alone: {only_arm} and {only_loop} (p = {p:.2f})"
        )


def worse(lake: Lake, declared: Mapping[str, Any]) -> Iterator[str]:
    """Yield one line for each capability with another skill, and for programs without a saving."""
    pairs = _pairs(lake, declared)
    for arm, found in pairs.items():
        _, _, p = _discordant(found)
        if p < CHANCE:
            yield f"{arm} has another skill than loop: p = {p:.4f}"
    own, theirs = (sum(pair[side]["calls"] for pair in pairs["loop-ptc"]) for side in (0, 1))
    if theirs >= own:
        yield f"programs save no calls: {theirs} against {own}"


def _pairs(
    lake: Lake, declared: Mapping[str, Any]
) -> dict[str, list[tuple[dict[str, Any], dict[str, Any]]]]:
    """Return the attempts of the arm `loop` and of each like it on the same task and seed."""
    journal = open_journal(lake)
    verdicts = {
        row["attempt_id"]: row["resolved"] for row in lake.rows("evaluations", declared["name"])
    }
    made: dict[str, dict[tuple[str, int], dict[str, Any]]] = {}
    for row in lake.rows("attempts", declared["name"]):
        attempt = journal.attempt(row["attempt_id"])
        made.setdefault(attempt.arm, {})[attempt.instance_id, attempt.repeat] = {
            "calls": row["model_calls"],
            "resolved": bool(verdicts.get(row["attempt_id"])),
        }
    return {
        arm: [(made["loop"][cell], made[arm][cell]) for cell in made["loop"]] for arm in SAME_SKILL
    }


def _discordant(pairs: list[tuple[dict[str, Any], dict[str, Any]]]) -> tuple[int, int, float]:
    """Return how many pairs only the first and only the second resolved, and the p-value."""
    only_first = sum(own["resolved"] and not theirs["resolved"] for own, theirs in pairs)
    only_second = sum(theirs["resolved"] and not own["resolved"] for own, theirs in pairs)
    discordant = only_first + only_second
    p_value = float(binomtest(only_first, discordant).pvalue) if discordant else 1.0
    return only_first, only_second, p_value


if __name__ == "__main__":
    sys.exit(main())
