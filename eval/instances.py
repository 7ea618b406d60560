"""Sources of instances: Hugging Face, a local file, or a swebench 5 task repo."""

import hashlib
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from eval import rows
from eval.errors import DatasetError
from eval.types import Instance

BUNDLED = "bundled"
"""Dataset name of the task repo that is part of the project."""

_BUNDLED_REPO = Path(__file__).parent / "tasks"
_SUFFIXES = (".parquet", ".jsonl", ".json")


def load(dataset: str, split: str = "test") -> list[Instance]:
    """Load all instances of a dataset, validated, in the dataset's own order.

    `dataset` is `bundled`, the path of a `.parquet`, `.jsonl` or `.json` file (which holds a
    single split), the path of a swebench 5 task repo, or otherwise a Hugging Face id.

    Raises:
        DatasetError: the dataset is not available or not readable, or a row is not usable.
    """
    path = _local(dataset)
    if path is None:
        raw = _hugging_face(dataset, split)
    elif path.is_dir():
        raw = _task_repo(path, split)
    else:
        raw = _file(path)
    instances = [rows.parse(row, where=f"{dataset}, row {n}") for n, row in enumerate(raw, 1)]
    _check_collection(instances, dataset)
    return instances


def task_repo(dataset: str) -> Path | None:
    """Return the folder of the task repo that `dataset` names, or None if it names no task repo."""
    path = _local(dataset)
    return path if path is not None and path.is_dir() else None


def dataset_digest(instances: Iterable[Instance]) -> str:
    """Return the SHA-256 over ids and row digests, independent of the order of instances."""
    lines = sorted(f"{instance.instance_id} {instance.digest}\n" for instance in instances)
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def _local(dataset: str) -> Path | None:
    """Return the path that `dataset` names, or None if it can only be a Hugging Face id."""
    if dataset == BUNDLED:
        return _BUNDLED_REPO
    path = Path(dataset).expanduser()
    names_a_path = path.suffix in _SUFFIXES or dataset.startswith(("/", ".", "~"))
    if path.exists():
        return path
    if names_a_path:
        raise DatasetError(f"{dataset}: there is no such file or folder")
    return None


def _file(path: Path) -> list[Any]:
    readers = {".parquet": _read_parquet, ".jsonl": _read_jsonl, ".json": _read_json}
    reader = readers.get(path.suffix)
    if reader is None:
        raise DatasetError(f"{path}: a dataset file ends in {', '.join(_SUFFIXES)}")
    try:
        return reader(path)
    except (OSError, ValueError) as error:
        raise DatasetError(f"{path}: cannot be read: {_first_line(error)}") from error


def _read_parquet(path: Path) -> list[Any]:
    import pyarrow.parquet  # takes 0.3 s, and the other readers do not need it

    return list(pyarrow.parquet.read_table(path).to_pylist())


def _read_jsonl(path: Path) -> list[Any]:
    result = []
    with path.open(encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            try:
                result.append(json.loads(line))
            except ValueError as error:
                raise ValueError(f"line {number} is not JSON: {error}") from None
    return result


def _read_json(path: Path) -> list[Any]:
    content = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(content, list):
        raise ValueError("expected a list of rows")
    return content


def _task_repo(path: Path, split: str) -> list[Any]:
    import yaml
    from swebench.task.repo import load_task_repo

    try:
        tasks = load_task_repo(path)
    except KeyError as error:
        raise DatasetError(f"{path}: a task has no {error}") from error
    except (OSError, ValueError, TypeError, yaml.YAMLError) as error:
        raise DatasetError(
            f"{path}: not a readable swebench 5 task repo: {_first_line(error)}"
        ) from error
    wanted = [task for task in tasks if task.get("split") == split]
    if not wanted:
        splits = sorted({str(task.get("split")) for task in tasks})
        raise DatasetError(
            f"{path}: no task in split {split!r}; there is {', '.join(splits) or 'no task at all'}"
        )
    return wanted


def _hugging_face(dataset: str, split: str) -> list[Any]:
    # The import takes seconds, and only this function needs it.
    import datasets

    try:
        return list(datasets.load_dataset(dataset, split=split))
    except (OSError, ValueError, datasets.exceptions.DatasetsError) as error:
        raise DatasetError(
            f"{dataset}: no such local file or folder, and Hugging Face did not deliver it "
            f"(split {split!r}): {_first_line(error)}"
        ) from error


def _check_collection(instances: Sequence[Instance], dataset: str) -> None:
    if not instances:
        raise DatasetError(f"{dataset}: no instances in it")
    seen: set[str] = set()
    for instance in instances:
        if instance.instance_id in seen:
            raise DatasetError(f"{dataset}: {instance.instance_id} is in it more than once")
        seen.add(instance.instance_id)


def _first_line(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]
