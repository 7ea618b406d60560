"""Rows in the form of swebench 5, with every column checked."""

import json
import re
import sys
from collections.abc import Iterable, Mapping
from typing import Any

from pydantic_core import from_json

from eval import harness, resources
from eval.errors import DatasetError
from eval.types import Instance

SWEBENCH_5_COLUMNS = ("image", "eval_script", "log_parser", "eval_type")
"""Columns that swebench 5 added to the rows. It cannot grade without them."""

_TEXT_COLUMNS = (
    "instance_id",
    "repo",
    "base_commit",
    "problem_statement",
    "patch",
    "test_patch",
    *SWEBENCH_5_COLUMNS,
)
_REQUIRED = (*_TEXT_COLUMNS, "version", "FAIL_TO_PASS", "PASS_TO_PASS")
_MAY_BE_EMPTY = frozenset({"patch", "test_patch", "problem_statement", "version"})

# Ids and commits become file names, image tags and arguments of git.
INSTANCE_ID = re.compile(r"\w[\w.-]*", re.ASCII)
"""Pattern of an instance id."""
_IMAGE_OR_LINK = re.compile(r"!\[[^\]]*\]\([^)]*\)|<img\b[^>]*>|https?://\S+", re.IGNORECASE)
_FEWEST_WORDS = 20
"""Words of a statement without its images that can describe a task."""
_COMMIT = re.compile(r"[0-9a-f]{7,64}")


def parse(row: Any, *, where: str = "") -> Instance:
    """Parse one row into an `Instance`. `where` names the row in messages.

    Raises:
        DatasetError: a column is missing or has a value that swebench 5 cannot use.
    """
    try:
        if not isinstance(row, Mapping):
            raise DatasetError(f"a row must be an object with columns, not {_kind(row)}")
        _check_columns(row)
        _check_values(row)
        _check_assets(row)
        return Instance(
            **{column: row[column] for column in _TEXT_COLUMNS},
            version=str(row["version"]),
            fail_to_pass=read_tests(row, "FAIL_TO_PASS"),
            pass_to_pass=read_tests(row, "PASS_TO_PASS"),
            row=dict(row),
            demand=resources.demand(row),
        )
    except DatasetError as error:
        raise DatasetError(f"{where}: {error}" if where else str(error)) from None


def _check_columns(row: Mapping[str, Any]) -> None:
    missing = [
        column
        for column in _REQUIRED
        if row.get(column) is None or (column not in _MAY_BE_EMPTY and row[column] == "")
    ]
    if not missing:
        return
    if row.get("model_patch") is not None:
        raise DatasetError("this is a prediction, not a task: `durabench grade` takes such a file")
    if len(missing) > len(_REQUIRED) / 2:
        raise DatasetError(
            "the row has no known form: not of swebench 5 (image, eval_script, ...), "
            "SWE-bench-Live (test_cmds), SWE-rebench V2 (install_config) or SWE-bench Pro "
            "(before_repo_set_cmd)"
        )
    advice = "every row needs these columns"
    if set(missing) & set(SWEBENCH_5_COLUMNS):
        advice = (
            "use a swebench 5 dataset such as SWE-bench/SWE-bench_Verified, "
            "or add the columns that grading needs"
        )
    raise DatasetError(f"no value for {', '.join(missing)}; {advice}")


def _check_values(row: Mapping[str, Any]) -> None:
    check_texts(row, _TEXT_COLUMNS)
    if row["eval_type"] not in harness.EVAL_TYPES:
        allowed = " or ".join(sorted(harness.EVAL_TYPES))
        raise DatasetError(f"eval_type {row['eval_type']!r} must be {allowed}")
    if not harness.knows_log_parser(row["log_parser"]):
        raise DatasetError(
            f"swebench {harness.version()} has no log parser {row['log_parser']!r}; "
            "correct the name or install the swebench release that has it"
        )


def check_texts(row: Mapping[str, Any], columns: Iterable[str]) -> None:
    """Check that columns are text, and that instance id and base commit are safe in names.

    Raises:
        DatasetError: they are not.
    """
    for column in columns:
        if not isinstance(row[column], str):
            raise DatasetError(f"{column} must be text, not {_kind(row[column])}")
    if not INSTANCE_ID.fullmatch(row["instance_id"]):
        raise DatasetError("instance_id may hold letters, digits, '_', '.' and '-' only")
    if not _COMMIT.fullmatch(row["base_commit"]):
        raise DatasetError("base_commit must be a commit id in hexadecimal")


def _check_assets(row: Mapping[str, Any]) -> None:
    """Reject rows whose tests need binary files, and rows whose statement is little but images.

    No text patch can carry the files, and arms read text only.
    """
    raw = row.get("image_assets")
    try:
        declared = json.loads(raw) if isinstance(raw, str) and raw else raw or {}
    except ValueError:
        raise DatasetError("image_assets is not JSON") from None
    if isinstance(declared, Mapping) and (declared.get("test_patch") or declared.get("patch")):
        raise DatasetError("image_assets are not supported; leave multimodal instances out")
    if isinstance(declared, Mapping) and declared.get("problem_statement"):
        text = _IMAGE_OR_LINK.sub(" ", row["problem_statement"])
        if len(text.split()) < _FEWEST_WORDS:
            raise DatasetError("the statement is little but images, and arms read text only")


def read_tests(row: Mapping[str, Any], column: str) -> tuple[str, ...]:
    """Return the names of tests in a column.

    Raises:
        DatasetError: the column does not hold a list of names.
    """
    value = row[column]
    try:
        names = parse_json(value) if isinstance(value, str) else value
        if isinstance(names, list | tuple):
            return tuple(map(sys.intern, names))  # rows of one repository have the same tests
    except (ValueError, RecursionError, TypeError):  # TypeError: a name is not text
        pass
    raise DatasetError(f"{column} must be a list of test names, or one as JSON")


def parse_json(text: str | bytes) -> Any:
    """Return the value of a JSON text. Equal short texts in it are one object.

    Raises:
        ValueError, RecursionError: it is not JSON, or nested too deeply.
    """
    try:
        return from_json(text)
    except ValueError:
        return json.loads(text)  # it also takes halves of surrogate pairs, and a byte order mark


def _kind(value: object) -> str:
    return type(value).__name__
