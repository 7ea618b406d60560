"""Sources of instances: Hugging Face, a local file, or a swebench 5 task repo."""

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from eval import rows
from eval.errors import DatasetError
from eval.types import Instance, UnusableRow

BUNDLED = "bundled"
"""Dataset name of the task repo that is part of the project."""

_BUNDLED_REPO = Path(__file__).parent / "tasks"
_SUFFIXES = (".parquet", ".jsonl", ".json")
_SHOWN_REASONS = 3


@dataclass(frozen=True)
class _Unreadable:
    """A row whose columns cannot be read."""

    reason: str
    instance_id: str = ""


@dataclass(frozen=True)
class Dataset:
    """The rows of a dataset, in its own order."""

    name: str
    instances: list[Instance]
    unusable: list[UnusableRow]

    @property
    def warning(self) -> str:
        """How many rows cannot be used, and why, in one line; `""` if all can."""
        if not self.unusable:
            return ""
        first = {row.reason: _name(row) for row in reversed(self.unusable)}
        counts = Counter(row.reason for row in self.unusable).most_common()
        reasons = [
            f"{f'{count}: ' if len(counts) > 1 else ''}{reason}, first {first[reason]}"
            for reason, count in counts[:_SHOWN_REASONS]
        ]
        if len(counts) > _SHOWN_REASONS:
            reasons.append(f"{len(counts) - _SHOWN_REASONS} more reasons")
        rows = len(self.unusable) + len(self.instances)
        return (
            f"{len(self.unusable)} of {rows} rows of {self.name} cannot be used "
            f"({'; '.join(reasons)})"
        )


def read(dataset: str, split: str = "test") -> Dataset:
    """Read a dataset. Rows that cannot be used are listed with the reasons.

    `dataset` is `bundled`, the path of a `.parquet`, `.jsonl` or `.json` file (which holds a
    single split), the path of a swebench 5 task repo, or otherwise a Hugging Face id.

    Raises:
        DatasetError: the dataset is not available or not readable, or no row of it can be used.
    """
    path = _local(dataset)
    if path is None:
        raw = _hugging_face(dataset, split)
    elif path.is_dir():
        raw = _task_repo(path, split)
    else:
        raw = _file(path)
    parsed = [_parse(row, f"{dataset}, row {number}") for number, row in enumerate(raw, 1)]
    ids = Counter(each.instance_id for each in parsed)
    found = [_only(each, number, dataset, ids) for number, each in enumerate(parsed, 1)]
    usable = [each for each in found if isinstance(each, Instance)]
    unusable = [each for each in found if isinstance(each, UnusableRow)]
    if not usable:
        others = f"; none of its {len(found)} rows can be used" if len(found) > 1 else ""
        raise DatasetError(f"{unusable[0]}{others}" if found else f"{dataset}: no instances in it")
    return Dataset(dataset, usable, unusable)


def load(dataset: str, split: str = "test") -> list[Instance]:
    """Return the instances of a dataset that can be used. See `read`."""
    return read(dataset, split).instances


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
    except (OSError, ValueError, RecursionError) as error:
        raise DatasetError(f"{path}: cannot be read: {_first_line(error)}") from error


def _read_parquet(path: Path) -> list[Any]:
    import pyarrow.parquet  # takes 0.3 s, and the other readers do not need it

    return _rows_of(pyarrow.parquet.read_table(path))


def _rows_of(table: Any) -> list[Any]:
    """Return the rows of an Arrow table."""
    try:
        return list(table.to_pylist())
    except ValueError:  # a value that is not UTF-8
        return [_row_of(table.slice(number, 1)) for number in range(table.num_rows)]


def _row_of(table: Any) -> Any:
    try:
        return table.to_pylist()[0]
    except ValueError as error:
        ids = table.column("instance_id") if "instance_id" in table.column_names else None
        return _Unreadable(_first_line(error), str(ids[0]) if ids is not None else "")


def _read_jsonl(path: Path) -> list[Any]:
    result: list[Any] = []
    for number, line in enumerate(path.read_bytes().splitlines(), 1):
        if not line.strip():
            continue
        try:
            result.append(json.loads(line))
        except (ValueError, RecursionError) as error:
            result.append(_Unreadable(f"line {number} is not JSON: {error}"))
    return result


def _read_json(path: Path) -> list[Any]:
    content = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(content, list):
        raise ValueError("expected a list of rows")
    return content


def _task_repo(path: Path, split: str) -> list[Any]:
    from swebench.task.repo import task_dirs

    try:
        tasks = [_task(folder) for folder in task_dirs(path)]
    except OSError as error:
        raise DatasetError(
            f"{path}: not a readable swebench 5 task repo: {_first_line(error)}"
        ) from error
    wanted = [task for task in tasks if isinstance(task, _Unreadable) or _split(task) == split]
    if all(isinstance(task, _Unreadable) for task in wanted):
        splits = sorted({_split(task) for task in tasks if not isinstance(task, _Unreadable)})
        if splits or not tasks:
            raise DatasetError(
                f"{path}: no task in split {split!r}; there is "
                f"{', '.join(splits) or 'no task at all'}"
            )
    return wanted


def _task(folder: Path) -> Any:
    """Return the row of a task."""
    import yaml
    from swebench.task.repo import load_task

    try:
        return load_task(folder)
    except (OSError, ValueError, TypeError, yaml.YAMLError) as error:
        return _Unreadable(f"the task cannot be read: {_first_line(error)}", folder.name)


def _split(task: Mapping[str, Any]) -> str:
    return str(task.get("split"))


def _hugging_face(dataset: str, split: str) -> list[Any]:
    # The import takes seconds, and only this function needs it.
    import datasets

    try:
        return _rows_of(datasets.load_dataset(dataset, split=split).with_format("arrow")[:])
    except (OSError, ValueError, datasets.exceptions.DatasetsError) as error:
        raise DatasetError(
            f"{dataset}: no such local file or folder, and Hugging Face did not deliver it "
            f"(split {split!r}): {_first_line(error)}"
        ) from error


def _parse(row: Any, where: str) -> Instance | UnusableRow:
    known = row.get("instance_id") if isinstance(row, Mapping) else None
    instance_id = known if isinstance(known, str) else ""
    where = f"{where} ({instance_id})" if instance_id else where
    if isinstance(row, _Unreadable):
        return UnusableRow(where, row.instance_id, row.reason)
    try:
        return rows.parse(row)
    except DatasetError as error:
        return UnusableRow(where, instance_id, str(error))


def _only(
    row: Instance | UnusableRow, number: int, dataset: str, ids: Mapping[str, int]
) -> Instance | UnusableRow:
    """Return the row, which cannot be used if another one has its id."""
    if isinstance(row, UnusableRow) or ids[row.instance_id] == 1:
        return row
    where, instance_id = f"{dataset}, row {number}", row.instance_id
    return UnusableRow(where, instance_id, f"{instance_id} is in it more than once")


def _name(row: UnusableRow) -> str:
    return row.instance_id or row.where.rpartition(", ")[2]


def _first_line(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]
