"""The `mini` arm compared with mini-swe-agent's own batch runner, over Docker and HTTP.

16 instances of 50 commands each, a local server without latency, 4 workers, and whole processes
with all their imports and programs.
"""

import json
import sys
from pathlib import Path

import yaml

from eval import images, instances
from eval.types import Instance
from tests.bench.timing import Contender, Ratio, compare
from tests.servers.openai_server import serve_apart

INSTANCES, COMMANDS, WORKERS = 16, 50, 4
LIMIT = 0.5
BIN = Path(sys.executable).parent
TURNS = [
    *(f"echo step {number} && git status --short" for number in range(COMMANDS - 2)),
    "echo changed >> README.md && git diff -- README.md > patch.txt",
    "cat patch.txt",
    "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT && cat patch.txt",
]
"""Cheap commands, then a change and its submission."""


def run(folder: Path, *, pairs: int) -> list[Ratio]:
    """Measure both programs, and check that both produce the same patches.

    Raises:
        RuntimeError: a run failed, or the results differ.
    """
    model = _template()
    _write_dataset(folder, model)
    with serve_apart(folder, TURNS) as url:
        ours = Contender("durabench", lambda own: _ours(own, folder, url))
        theirs = Contender("mini-swe-agent", lambda own: _theirs(folder, url))
        title = f"mini arm, {INSTANCES} instances of {COMMANDS} commands, {WORKERS} workers"
        ratios = compare(title, ours, theirs, folder, pairs=pairs, limit=LIMIT)
    _require_equal(folder)
    return list(ratios)


def _template() -> Instance:
    """Return a bundled instance whose image all rows share."""
    first = instances.load("bundled")[:1]
    repo = instances.task_repo("bundled")
    assert repo is not None
    list(images.build(first, repo))
    return first[0]


def _write_dataset(folder: Path, model: Instance) -> None:
    rows = [
        {
            **model.row,
            "instance_id": f"bench__row-{number}",
            # Each of the two programs reads the image from another field.
            "image": model.image,
            "image_name": model.image,
        }
        for number in range(INSTANCES)
    ]
    (folder / "rows").mkdir()
    text = "".join(json.dumps(row, default=str) + "\n" for row in rows)
    (folder / "rows" / "test.jsonl").write_text(text)


def _ours(own: Path, folder: Path, url: str) -> list[str]:
    experiment = {
        "name": "bench",
        "dataset": str(folder / "rows" / "test.jsonl"),
        "environment": "docker",
        "concurrency": WORKERS,
        "arms": [{"name": "mini", "agent": "mini"}],
        "model": {"name": "openai/bench", "api_base": url},
    }
    path = own / "bench.yaml"
    path.write_text(yaml.safe_dump(experiment))
    return [str(BIN / "durabench"), "run", str(path), "--lake", str(own / "lake"), "--no-grade"]


def _theirs(folder: Path, url: str) -> list[str]:
    return [
        *[str(BIN / "mini-extra"), "swebench", "--subset", str(folder / "rows")],
        *["--split", "test", "--workers", str(WORKERS), "--model", "openai/bench"],
        *["-c", "swebench.yaml", "-c", f"model.model_kwargs.api_base={url}", "-o", "out"],
    ]


def _require_equal(folder: Path) -> None:
    import pyarrow.dataset as ds

    for theirs in folder.glob("mini-swe-agent-*/out/preds.json"):
        expected = {k: v["model_patch"] for k, v in json.loads(theirs.read_text()).items()}
        pair = theirs.parents[1].name.rsplit("-", 1)[1]
        lake = folder / f"durabench-{pair}" / "lake" / "predictions"
        table = ds.dataset(lake, partitioning="hive").to_table(["instance_id", "model_patch"])
        found = {row["instance_id"]: row["model_patch"] for row in table.to_pylist()}
        if found != expected or len(found) != INSTANCES or not all(found.values()):
            raise RuntimeError(f"pair {pair}: the patches differ")
