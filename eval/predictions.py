"""Predictions in the official harness's file formats: `all_preds.jsonl` and `preds.json`."""

import json
import os
import secrets
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from eval.errors import PredictionsError
from eval.types import Prediction


def read(path: Path) -> list[Prediction]:
    """Read all predictions of a file, in its order. A patch of `null` is the empty patch.

    A `.jsonl` file has one prediction per line. A `.json` file is a list of predictions, or an
    object of predictions by instance id.

    Raises:
        PredictionsError: the file cannot be read, a prediction lacks one of its three
            fields, or an instance occurs twice.
    """
    predictions: list[Prediction] = []
    seen: set[str] = set()
    for where, raw in _entries(path):
        prediction = _parse(raw, f"{path}, {where}")
        if prediction.instance_id in seen:
            raise PredictionsError(
                f"{path}, {where}: a second prediction for {prediction.instance_id}; "
                "keep one per instance"
            )
        seen.add(prediction.instance_id)
        predictions.append(prediction)
    return predictions


def write_jsonl(path: Path, predictions: Iterable[Prediction]) -> None:
    """Replace `path` atomically by a file with one line per prediction.

    Raises:
        PredictionsError: the file cannot be written.
    """
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with temporary.open("x", encoding="utf-8") as file:
                file.writelines(f"{json.dumps(asdict(prediction))}\n" for prediction in predictions)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        raise PredictionsError(f"{path}: cannot be written: {error.strerror}") from error


def _entries(path: Path) -> Iterator[tuple[str, Any]]:
    """Yield the raw predictions, each with a description of its position in the file."""
    if path.suffix not in (".json", ".jsonl"):
        raise PredictionsError(f"{path}: a predictions file ends in .jsonl or .json")
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise PredictionsError(f"{path}: there is no such file") from None
    except (OSError, UnicodeDecodeError) as error:
        raise PredictionsError(f"{path}: cannot be read: {error}") from error
    if path.suffix == ".jsonl":
        # Not splitlines(), which also breaks at separators that JSON allows inside a string.
        for number, line in enumerate(text.split("\n"), 1):
            if line.strip():
                yield f"line {number}", _json(line, f"{path}, line {number}")
        return
    content = _json(text, str(path))
    if isinstance(content, list):
        yield from ((f"item {number}", raw) for number, raw in enumerate(content, 1))
    elif isinstance(content, dict):
        for key, raw in content.items():
            yield f"key {key}", {"instance_id": key, **raw} if isinstance(raw, dict) else raw
    else:
        raise PredictionsError(f"{path}: expected a list or an object of predictions")


def _json(text: str, where: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, " if error.lineno > 1 else ""
        raise PredictionsError(
            f"{where}: not JSON: {error.msg} ({place}column {error.colno})"
        ) from None


def _parse(raw: Any, where: str) -> Prediction:
    if not isinstance(raw, dict):
        raise PredictionsError(f"{where}: a prediction must be an object")
    for field in ("instance_id", "model_name_or_path", "model_patch"):
        if field not in raw:
            raise PredictionsError(f"{where}: the prediction has no {field}")
    patch = "" if raw["model_patch"] is None else raw["model_patch"]
    values = (raw["instance_id"], raw["model_name_or_path"], patch)
    if not all(isinstance(value, str) for value in values):
        raise PredictionsError(f"{where}: the three fields of a prediction must be text")
    return Prediction(*values)
