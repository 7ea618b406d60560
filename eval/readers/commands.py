"""Rows that carry their own test commands: SWE-bench-Live, SWE-rebench V2, SWE-bench Pro.

Each becomes an instance with an eval script of the usual form: the test patch, a line, the
commands, a line. The verdict follows the rules of its publisher (`OwnRules`).
"""

import ast
import base64
import json
import re
import reprlib
import shlex
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from eval import harness, resources
from eval.errors import DatasetError
from eval.readers.swebench import INSTANCE_ID, check_texts, read_tests
from eval.types import ROOT, Instance, OwnRules

Form = Literal["live", "rebench", "pro"]

STREAMS = ">>>>> Standard error"
"""The line between standard output and standard error in the log of a SWE-bench Pro task."""

_NAMES: Mapping[Form, str] = {
    "live": "SWE-bench-Live",
    "rebench": "SWE-rebench",
    "pro": "SWE-bench Pro",
}
_COLUMNS: Mapping[Form, frozenset[str]] = {
    "live": frozenset({"test_cmds", "print_cmds", "rebuild_cmds"}),
    "rebench": frozenset({"image_name", "install_config"}),
    "pro": frozenset({"before_repo_set_cmd", "selected_test_files_to_run"}),
}
"""Columns that only rows of one form have."""

_TEXTS = ("instance_id", "repo", "base_commit", "problem_statement", "patch", "test_patch")
_SCRIPTS = Path("run_scripts")
_FOLDERS_UP = 2
_PRO_ROOT = "/app"
_PRO_FOLDER = "/workspace"
_END_OF_PATCH = "END_OF_TEST_PATCH"
_TEST_PATCH = "/tmp/test.patch"  # noqa: S108 - inside a container
_PATCH_TESTS = f"""\
git apply --numstat -z {_TEST_PATCH} | while IFS=$'\\t' read -r -d '' _ _ path; do
  git checkout -q HEAD -- "$path" 2>/dev/null || rm -f -- "$path"
done
git apply --recount {_TEST_PATCH} || exit 1"""
_PYTEST = "parse_log_pytest"
_FOR_ROWS_OF_SWEBENCH = frozenset(
    f"parse_log_{name}" for name in ("lighthouse", "next", "immutable_js", "jekyll")
)
"""Parsers that look up the id or the version of swebench's rows."""


def recognize(row: Mapping[str, Any]) -> Form | None:
    """Return the form of a row by its columns, or None if it has none of these forms."""
    if row.get("eval_script"):
        return None
    for form, columns in _COLUMNS.items():
        if any(row.get(column) is not None for column in columns):
            return form
    return None


def parse(row: Mapping[str, Any], form: Form, *, where: str = "") -> Instance:
    """Return a row of that form as an instance.

    Raises:
        DatasetError: a column is missing, or has a value that cannot be used.
    """
    try:
        return _PARSERS[form](row)
    except DatasetError as error:
        message = f"a {_NAMES[form]} row {error}"
        raise DatasetError(f"{where}: {message}" if where else message) from None


def add_scripts(row: Any, file: Path) -> Any:
    """Return a row of SWE-bench Pro with the scripts that belong to its file.

    They are `run_scripts/INSTANCE_ID/run_script.sh` and `parser.py`, in the folder of the file or
    in one of the two above it.
    """
    if not isinstance(row, Mapping) or recognize(row) != "pro" or row.get("run_script"):
        return row
    name = str(row.get("instance_id"))
    if not INSTANCE_ID.fullmatch(name):
        return row
    for above in [file.resolve().parent, *file.resolve().parents[1 : _FOLDERS_UP + 1]]:
        folder = above / _SCRIPTS / name
        if folder.is_dir():
            try:
                run, parser = (
                    (folder / part).read_text("utf-8") for part in ("run_script.sh", "parser.py")
                )
            except (OSError, ValueError):
                return row
            return {**row, "run_script": run, "parser": parser}
    return row


def _parse_live(row: Mapping[str, Any]) -> Instance:
    commands = _read_commands(row, "test_cmds")
    printing = _read_commands(row, "print_cmds", required=False)
    builds = _read_commands(row, "rebuild_cmds", required=False)
    image = row.get("docker_image") or row.get("image") or _name_live_image(row)
    tests = "\n".join(commands)
    if printing:
        tests = "\n".join(["{", tests, "} >/dev/null 2>&1", *printing])
    return _make(
        row,
        image=image,
        root=ROOT,
        before=builds,
        tests=tests,
        rules=_read_rules(row.get("log_parser"), row, missing_fails=False),
    )


def _name_live_image(row: Mapping[str, Any]) -> str:
    name = str(row.get("instance_id")).replace("__", "_1776_").lower()
    return f"starryzhang/sweb.eval.x86_64.{name}"


def _parse_rebench(row: Mapping[str, Any]) -> Instance:
    config = row.get("install_config")
    with suppress(ValueError, TypeError, RecursionError):  # some copies of the rows hold a text
        config = json.loads(config)  # type: ignore[arg-type]
    if not isinstance(config, Mapping):
        raise DatasetError("without install_config has no commands: use its full dataset")
    if not row.get("image_name"):
        raise DatasetError("without image_name has no image: only V2 names it")
    commands = _read_commands(config, "test_cmd")
    # The publisher runs several commands until one fails.
    tests = commands[0] if len(commands) == 1 else "\n".join(["(", "set -e", *commands, ")"])
    name = str(row.get("repo")).rpartition("/")[2]
    if not INSTANCE_ID.fullmatch(name):
        raise DatasetError("has a repo that names no folder of an image")
    return _make(
        row,
        image=row["image_name"],
        root=f"/{name}",
        before=[],
        tests=tests,
        rules=_read_rules(config.get("log_parser"), row, missing_fails=True),
    )


def _parse_pro(row: Mapping[str, Any]) -> Instance:
    if not row.get("run_script") or not row.get("parser"):
        raise DatasetError(
            "comes without its scripts: name a file in a clone of the publisher's repository, "
            "which has the folder run_scripts"
        )
    if not (image := row.get("image") or row.get("dockerhub_tag")):
        raise DatasetError("without dockerhub_tag or image has no image")
    files = ",".join(_read_names(row, "selected_test_files_to_run"))
    checkout = str(row.get("before_repo_set_cmd") or "").strip().splitlines()[-1:]
    script = base64.b64encode(str(row["run_script"]).encode()).decode()
    out, err = f"{_PRO_FOLDER}/stdout.log", f"{_PRO_FOLDER}/stderr.log"
    run = f"bash {_PRO_FOLDER}/run_script.sh {shlex.quote(files)} >{out} 2>{err}"
    return _make(
        {
            **row,
            "FAIL_TO_PASS": _read_names(row, "FAIL_TO_PASS", "fail_to_pass"),
            "PASS_TO_PASS": _read_names(row, "PASS_TO_PASS", "pass_to_pass"),
        },
        image=image if row.get("image") else f"jefzda/sweap-images:{image}",
        root=_PRO_ROOT,
        before=[
            *checkout,
            f"mkdir -p {_PRO_FOLDER}",
            f"base64 -d >{_PRO_FOLDER}/run_script.sh <<< {script}",
        ],
        tests=f"{run}\ncat {out}\necho '{STREAMS}'\ncat {err}",
        rules=OwnRules("program", str(row["parser"])),
        patches_tests=False,
    )


_PARSERS: Mapping[Form, Callable[[Mapping[str, Any]], Instance]] = {
    "live": _parse_live,
    "rebench": _parse_rebench,
    "pro": _parse_pro,
}


def _make(
    row: Mapping[str, Any],
    *,
    image: Any,
    root: str,
    before: Iterable[str],
    tests: str,
    rules: OwnRules,
    patches_tests: bool = True,
) -> Instance:
    missing = [column for column in _TEXTS[:3] if not row.get(column)]
    if missing:
        raise DatasetError(f"has no value for {', '.join(missing)}")
    row = {**dict.fromkeys(_TEXTS, ""), **row, "image": image}
    check_texts(row, [*_TEXTS, "image"])
    if not re.fullmatch(r"\w\S*", image):
        raise DatasetError(f"has an image with the name {reprlib.repr(image)}")
    by_name = rules.kind != "exit_code"
    wanted = [read_tests(row, c) if by_name else () for c in ("FAIL_TO_PASS", "PASS_TO_PASS")]
    if by_name and not wanted[0]:
        raise DatasetError("has no test in FAIL_TO_PASS")
    script = _write_script(row, root, before, tests, patches_tests=patches_tests)
    row["created_at"] = _read_date(row.get("created_at"))
    row["FAIL_TO_PASS"], row["PASS_TO_PASS"] = wanted  # their text is most of a row
    return Instance(
        **{column: row[column] for column in _TEXTS},
        version=str(row.get("version") or ""),
        image=image,
        eval_script=script,
        log_parser="",
        eval_type="pass_and_fail",
        fail_to_pass=wanted[0],
        pass_to_pass=wanted[1],
        row=row,
        demand=resources.demand(row),
        root=root,
        rules=rules,
    )


def _write_script(
    row: Mapping[str, Any], root: str, before: Iterable[str], tests: str, *, patches_tests: bool
) -> str:
    """Return an eval script. Files of the test patch replace files of the patch under test."""
    start, end = harness.log_markers()
    lines = ["#!/bin/bash", f"cd {shlex.quote(root)}"]
    lines.append(f"git config --global --add safe.directory {shlex.quote(root)}")
    if patches_tests and row["test_patch"].strip():
        if _END_OF_PATCH in row["test_patch"]:
            raise DatasetError(f"has {_END_OF_PATCH} in its test_patch")
        text = row["test_patch"].removesuffix("\n")
        lines += [f"cat >{_TEST_PATCH} <<'{_END_OF_PATCH}'", text, _END_OF_PATCH, _PATCH_TESTS]
    lines += [*before, f"echo '{start}'", tests, "durabench_status=$?", f"echo '{end}'"]
    return "\n".join([*lines, 'exit "$durabench_status"', ""])


def _read_rules(parser: Any, row: Mapping[str, Any], *, missing_fails: bool) -> OwnRules:
    """Return the rules for a parser, which is a name or Python text."""
    if parser in (None, "", "exit_code"):
        if parser != "exit_code" and (row.get("FAIL_TO_PASS") or row.get("PASS_TO_PASS")):
            raise DatasetError("names tests, but has no log_parser that finds them in the log")
        return OwnRules("exit_code")
    if not isinstance(parser, str):
        raise DatasetError("has a log_parser that is not text")
    name = _PYTEST if parser.strip().lower() == "pytest" else parser.strip()
    if name.isidentifier():
        if name in _FOR_ROWS_OF_SWEBENCH or not harness.knows_log_parser(name):
            raise DatasetError(
                f"names the log parser {name}, which swebench {harness.version()} does not "
                "have for such rows: put its source, a function parser(log), into log_parser"
            )
        return OwnRules("swebench", name, missing_fails)
    return OwnRules("function", parser, missing_fails)


def _read_commands(row: Mapping[str, Any], column: str, *, required: bool = True) -> list[str]:
    value = row.get(column)
    commands = [value] if isinstance(value, str) else value
    if commands is None and not required:
        return []
    if not isinstance(commands, list | tuple) or not all(isinstance(c, str) for c in commands):
        raise DatasetError(f"needs commands in {column}, as text or as a list of texts")
    commands = [command for command in commands if command.strip()]
    if required and not commands:
        raise DatasetError(f"has no command in {column}")
    return commands


def _read_names(row: Mapping[str, Any], *columns: str) -> list[str]:
    """Return a list of names: one as JSON, as Python's text of a list, or as it is."""
    value: Any = next((row[column] for column in columns if row.get(column) is not None), [])
    if isinstance(value, str):
        try:
            value = ast.literal_eval(value)
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            value = None
    if not isinstance(value, list | tuple) or not all(isinstance(name, str) for name in value):
        raise DatasetError(f"needs a list of names in {columns[0]}")
    return list(value)


def _read_date(value: Any) -> Any:
    """Return a date as ISO 8601. SWE-rebench states milliseconds since 1970."""
    if not isinstance(value, int) or isinstance(value, bool):
        return value
    try:
        return datetime.fromtimestamp(value / 1000, UTC).isoformat()
    except (OverflowError, ValueError, OSError):
        return ""
