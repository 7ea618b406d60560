"""Sources of instances: Hugging Face, a local file, or a swebench 5 task repo."""

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from eval import reach
from eval.errors import DatasetError
from eval.readers import commands, harbor, read_row
from eval.readers.swebench import parse_json
from eval.types import Instance, UnusableRow

BUNDLED = "bundled"
"""Dataset name of the task repo that is part of the project."""

_HERE = Path(__file__).parent
_BUNDLED_REPOS = {BUNDLED: _HERE / "tasks", "bundled-polyglot": _HERE / "tasks" / "polyglot"}
_SUFFIXES = (".parquet", ".jsonl", ".json")
_SHOWN_REASONS = 3
_ROWS_AT_ONCE = 500
_BUFFER = 1_000_000


@dataclass(frozen=True)
class Dataset:
    """The rows of a dataset, in its own order."""

    name: str
    instances: list[Instance]
    unusable: list[UnusableRow]

    @property
    def warning(self) -> str:
        """The number of unusable rows and the reasons, in one line; `""` if all can be used."""
        if not self.unusable:
            return ""
        first = {
            row.reason: row.instance_id or row.where.rpartition(", ")[2]
            for row in reversed(self.unusable)
        }
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

    `dataset` is `bundled` or `bundled-polyglot`, the path of a `.parquet`, `.jsonl` or `.json` file
    (a single split), the path of a swebench 5 task repo, or otherwise a Hugging Face id.

    Raises:
        DatasetError: the dataset is not available or not readable, or no row of it can be used.
    """
    path = _local(dataset)
    raw: Iterable[Any]
    if path is None:
        raw = _hugging_face(dataset, split)
    elif path.is_dir():
        raw = _task_repo(path, split)
    else:
        raw = (commands.add_scripts(row, path) for row in _file(path))
    parsed = [_parse(row, f"{dataset}, row {number}") for number, row in enumerate(raw, 1)]
    counts = Counter(row.instance_id for row in parsed)
    usable: list[Instance] = []
    unusable: list[UnusableRow] = []
    for number, row in enumerate(parsed, 1):
        instance_id = row.instance_id
        if isinstance(row, UnusableRow):
            unusable.append(row)
        elif counts[instance_id] > 1:
            reason = f"{instance_id} is in it more than once"
            unusable.append(UnusableRow(f"{dataset}, row {number}", instance_id, reason))
        else:
            usable.append(row)
    if not parsed:
        raise DatasetError(f"{dataset}: no instances in it")
    if not usable:
        others = f"; none of its {len(parsed)} rows can be used" if len(parsed) > 1 else ""
        raise DatasetError(f"{unusable[0]}{others}")
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
    if dataset in _BUNDLED_REPOS:
        return _BUNDLED_REPOS[dataset]
    path = Path(dataset).expanduser()
    if path.exists():
        return path
    if path.suffix in _SUFFIXES or dataset.startswith(("/", ".", "~")):
        raise DatasetError(f"{dataset}: there is no such file or folder")
    return None


def _file(path: Path) -> Iterator[Any]:
    """Yield the rows of a file, which need not all be in memory at once."""
    try:
        match path.suffix:
            case ".parquet":
                import pyarrow  # takes 0.3 s, and the other readers do not need it
                from pyarrow.parquet import ParquetFile

                with ParquetFile(path) as file:
                    for batch in file.iter_batches(_ROWS_AT_ONCE):
                        yield from _rows_of(pyarrow.Table.from_batches([batch]))
            case ".jsonl":
                yield from _read_jsonl(path)
            case ".json":
                content = parse_json(path.read_bytes())
                if not isinstance(content, list):
                    raise ValueError("expected a list of rows")
                yield from content
            case _:
                raise DatasetError(f"{path}: a dataset file ends in {', '.join(_SUFFIXES)}")
    except (OSError, ValueError, RecursionError) as error:
        raise DatasetError(f"{path}: cannot be read: {_first_line(error)}") from error


def _rows_of(table: Any) -> list[Any]:
    try:
        return list(table.to_pylist())
    except ValueError:  # a value that is not UTF-8
        return [_row_of(table.slice(number, 1)) for number in range(table.num_rows)]


def _row_of(table: Any) -> Any:
    try:
        return table.to_pylist()[0]
    except ValueError as error:
        ids = table.column("instance_id") if "instance_id" in table.column_names else [""]
        return UnusableRow("", str(ids[0]), _first_line(error))


def _read_jsonl(path: Path) -> Iterator[Any]:
    with path.open("rb", buffering=_BUFFER) as lines:
        for number, line in enumerate(lines, 1):
            if line.isspace():
                continue
            try:
                yield parse_json(line)
            except (ValueError, RecursionError) as error:
                yield UnusableRow("", "", f"line {number} is not JSON: {error}")


def _read_harbor_task(folder: Path) -> Any:
    try:
        return harbor.parse(folder)
    except DatasetError as error:
        return UnusableRow("", folder.name, str(error))


def _task_repo(path: Path, split: str) -> list[Any]:
    if tasks_of_harbor := harbor.list_tasks(path):
        return [_read_harbor_task(folder) for folder in tasks_of_harbor]
    if not (path / "tasks").is_dir():
        raise DatasetError(f"{path}: {_explain_folder(path)}")
    from swebench.task.repo import task_dirs

    try:
        tasks = [_task(folder) for folder in task_dirs(path)]
    except OSError as error:
        raise DatasetError(
            f"{path}: not a readable swebench 5 task repo: {_first_line(error)}"
        ) from error
    splits = {str(task.get("split")) for task in tasks if not isinstance(task, UnusableRow)}
    if split not in splits and (splits or not tasks):
        raise DatasetError(
            f"{path}: no task in split {split!r}; there is "
            f"{', '.join(sorted(splits)) or 'no task at all'}"
        )
    return [
        task for task in tasks if isinstance(task, UnusableRow) or str(task.get("split")) == split
    ]


def _explain_folder(path: Path) -> str:
    """Return the reason why a folder cannot be a dataset, and a remedy."""
    if (path / "result.json").is_file() or any(path.glob("*/result.json")):
        return "these are results of Harbor, not tasks: `durabench compare` takes them"
    deeper = next(path.glob(f"*/*/{harbor.CONFIG}"), None)
    if deeper is not None:
        return f"no task is in it: name {deeper.parents[1]}, where the folders are tasks of Harbor"
    return "no task is in it, neither of Harbor (task.toml) nor of swebench 5 (tasks/)"


def _task(folder: Path) -> Any:
    import yaml
    from swebench.task.repo import load_task

    try:
        return load_task(folder)
    except (OSError, ValueError, TypeError, yaml.YAMLError) as error:
        return UnusableRow("", folder.name, f"the task cannot be read: {_first_line(error)}")


def _hugging_face(dataset: str, split: str) -> list[Any]:
    # The import takes seconds, and only this function needs it.
    import datasets
    from huggingface_hub import constants

    why = reach.explain_unreachable(constants.ENDPOINT)
    try:
        if why is not None:  # only the local cache can have it; the library would try for a minute
            with _offline(datasets.config), _offline(constants):
                return _load(datasets, dataset, split)
        return _load(datasets, dataset, split)
    except (OSError, ValueError, datasets.exceptions.DatasetsError) as error:
        raise DatasetError(
            f"{dataset}: no such local file or folder, and Hugging Face did not deliver it "
            f"(split {split!r}): {why or _first_line(error)}"
        ) from error


def _load(datasets: Any, dataset: str, split: str) -> list[Any]:
    return _rows_of(datasets.load_dataset(dataset, split=split).with_format("arrow")[:])


@contextmanager
def _offline(settings: Any) -> Iterator[None]:
    """Keep a library from asking Hugging Face."""
    before, settings.HF_HUB_OFFLINE = settings.HF_HUB_OFFLINE, True
    try:
        yield
    finally:
        settings.HF_HUB_OFFLINE = before


def _parse(row: Any, where: str) -> Instance | UnusableRow:
    if isinstance(row, UnusableRow):
        return replace(row, where=where)
    if isinstance(row, Instance):
        return row
    value = row.get("instance_id") if isinstance(row, Mapping) else None
    instance_id = value if isinstance(value, str) else ""
    try:
        return read_row(row)
    except DatasetError as error:
        where = f"{where} ({instance_id})" if instance_id else where
        return UnusableRow(where, instance_id, str(error))


def _first_line(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]
