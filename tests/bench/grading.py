"""Grading compared with `swebench eval`, and with the commands of tasks alone; same workers."""

import json
import shlex
import sys
from dataclasses import replace
from pathlib import Path

from eval import images, instances
from eval.predictions import write_jsonl
from eval.types import Prediction
from tests.bench.timing import Contender, Ratio, compare

WORKERS = 4
WALL_LIMIT, CPU_LIMIT = 0.4, 1.5
ROWS, ROW_S, OVERHEAD_LIMIT = 24, 10, 1.2
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
    ours = _grade(gold, dataset)
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


def run_rows(folder: Path, *, pairs: int) -> list[Ratio]:
    """Measure the grading of rows with their own commands against `docker run` of the commands.

    Raises:
        RuntimeError: a run failed.
    """
    task = instances.load("bundled")[0]
    repo = instances.task_repo("bundled")
    assert repo is not None
    list(images.build([task], repo))
    commands = [f"sleep {ROW_S}", "python -m pytest -rA -p no:cacheprovider tests"]
    row = {
        "repo": "bench/rows",
        "docker_image": task.image,
        "base_commit": task.base_commit,
        "problem_statement": task.problem_statement,
        "patch": task.patch,
        "test_patch": task.test_patch,
        "FAIL_TO_PASS": list(task.fail_to_pass),
        "PASS_TO_PASS": list(task.pass_to_pass),
        "test_cmds": commands,
        "log_parser": "pytest",
    }
    names = [f"bench__rows-{number}" for number in range(ROWS)]
    dataset, gold = folder / "rows.jsonl", folder / "gold.jsonl"
    dataset.write_text("".join(json.dumps({**row, "instance_id": name}) + "\n" for name in names))
    write_jsonl(gold, [Prediction(name, "gold", task.patch) for name in names])
    alone = f"docker run --rm {task.image} bash -c 'cd /testbed; {'; '.join(commands)}; true'"
    workers = ["xargs", "-P", str(WORKERS), "-I{}", "sh", "-c", alone]
    theirs = Contender(
        "commands-alone", lambda own: ["sh", "-c", f"seq {ROWS} | {shlex.join(workers)}"]
    )
    title = f"grading {ROWS} rows with commands of {ROW_S} s, {WORKERS} workers"
    limit = OVERHEAD_LIMIT
    wall, _ = compare(title, _grade(gold, dataset), theirs, folder, pairs=pairs, limit=limit)
    return [wall]


def _grade(predictions: Path, dataset: Path) -> Contender:
    return Contender(
        "durabench-grade",
        lambda own: [
            *[str(BIN / "durabench"), "grade", str(predictions), "--dataset", str(dataset)],
            *["--name", "bench", "--environment", "docker", "--concurrency", str(WORKERS)],
            *["--lake", str(own / "lake")],
        ],
    )


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
