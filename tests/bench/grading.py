"""Grading compared with `swebench eval`: reference patches of the bundled tasks, same workers."""

import json
import sys
from dataclasses import replace
from pathlib import Path

from eval import images, instances
from eval.predictions import write_jsonl
from eval.types import Prediction
from tests.bench.timing import Contender, Ratio, compare

WORKERS = 4
WALL_LIMIT, CPU_LIMIT = 0.4, 1.5
BIN = Path(sys.executable).parent


def run(folder: Path, *, pairs: int) -> list[Ratio]:
    """Measure both programs, and check that both resolve every task.

    Raises:
        RuntimeError: a run failed, or the verdicts differ.
    """
    tasks = instances.load("bundled")
    repo = instances.task_repo("bundled")
    assert repo is not None
    list(images.build(tasks, repo))
    dataset, gold = folder / "tasks.jsonl", folder / "gold.jsonl"
    dataset.write_text("".join(json.dumps(task.row, default=str) + "\n" for task in tasks))
    write_jsonl(gold, [Prediction(task.instance_id, "gold", task.patch) for task in tasks])
    ours = Contender(
        "durabench-grade",
        lambda own: [
            *[str(BIN / "durabench"), "grade", str(gold), "--dataset", str(dataset)],
            *["--name", "bench", "--environment", "docker", "--concurrency", str(WORKERS)],
            *["--lake", str(own / "lake")],
        ],
    )
    theirs = Contender(
        "swebench-eval",
        lambda own: [
            *[str(BIN / "swebench"), "eval", str(dataset), "-p", str(gold)],
            *["-j", str(WORKERS), "--run-id", "bench"],
        ],
    )
    title = f"grading {len(tasks)} bundled tasks, {WORKERS} workers"
    wall, cpu = compare(title, ours, theirs, folder, pairs=pairs, limit=WALL_LIMIT)
    _require_equal(folder, {task.instance_id for task in tasks})
    return [wall, replace(cpu, limit=CPU_LIMIT)]


def _require_equal(folder: Path, tasks: set[str]) -> None:
    import pyarrow.dataset as ds

    for report in folder.glob("swebench-eval-*/*.json"):
        expected = set(json.loads(report.read_text())["resolved_ids"])
        pair = report.parent.name.rsplit("-", 1)[1]
        lake = folder / f"durabench-grade-{pair}" / "lake" / "evaluations"
        table = ds.dataset(lake, partitioning="hive").to_table(["instance_id", "resolved"])
        found = {row["instance_id"] for row in table.to_pylist() if row["resolved"]}
        if found != expected or found != tasks:
            raise RuntimeError(f"pair {pair}: the verdicts differ")
