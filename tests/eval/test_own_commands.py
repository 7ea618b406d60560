"""Rows with own commands: what is refused, and the verdict on their results."""

import json
import os
import resource
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from eval import harness, instances, own_rules
from eval.errors import DatasetError
from eval.readers import commands, read_row

MakeRow = Callable[..., dict[str, Any]]
Row = dict[str, Any]

TEXTS = ("repo", "base_commit", "problem_statement", "patch", "test_patch")
TESTS = {"FAIL_TO_PASS": ["a", "b"], "PASS_TO_PASS": ["c"]}
SOURCE = "def parser(log):\n    raise SystemExit('this must never run here')\n"


@pytest.fixture
def kinds(make_row: MakeRow) -> dict[str, Row]:
    """Return a row of each kind."""
    row = make_row()
    same = {"instance_id": "a__b-1", **{name: row[name] for name in TEXTS}, **TESTS}
    config = {"test_cmd": ["make", "make check"], "log_parser": "parse_log_gotest"}
    scripts = {"run_script": "make", "parser": SOURCE, "dockerhub_tag": "a.b-1"}
    pro = {"before_repo_set_cmd": "git checkout x", "selected_test_files_to_run": '["t"]'}
    return {
        "live": {**same, "docker_image": "i", "test_cmds": ["make check"], "log_parser": SOURCE},
        "rebench": {**same, "image_name": "i", "install_config": config},
        "pro": {**same, **pro, **scripts},
    }


REFUSED: list[tuple[str, Row, str]] = [
    (
        "live",
        {"test_cmds": None, "rebuild_cmds": []},
        "a SWE-bench-Live row needs commands in test_cmds",
    ),
    ("live", {"test_cmds": [" "]}, "has no command in test_cmds"),
    ("live", {"test_cmds": [3]}, "needs commands in test_cmds"),
    ("live", {"log_parser": "parse_log_of_mine"}, "put its source, a function parser(log)"),
    ("live", {"log_parser": "parse_log_jekyll"}, "does not have for such rows"),
    ("live", {"log_parser": ""}, "names tests, but has no log_parser"),
    ("live", {"log_parser": 3}, "has a log_parser that is not text"),
    ("live", {"base_commit": "main"}, "base_commit must be a commit id"),
    ("live", {"instance_id": "../x"}, "instance_id may hold letters"),
    ("live", {"instance_id": None}, "has no value for instance_id"),
    ("live", {"FAIL_TO_PASS": []}, "has no test in FAIL_TO_PASS"),
    ("live", {"test_patch": "END_OF_TEST_PATCH"}, "has END_OF_TEST_PATCH in its test_patch"),
    ("rebench", {"install_config": None}, "a SWE-rebench row without install_config"),
    ("rebench", {"repo": "a/.."}, "has a repo that names no folder"),
    ("live", {"docker_image": "a\nb"}, "has an image with the name 'a\\nb'"),
    ("rebench", {"image_name": None}, "a SWE-rebench row without image_name"),
    ("rebench", {"install_config": {"log_parser": "x"}}, "needs commands in test_cmd"),
    ("pro", {"run_script": None}, "a SWE-bench Pro row comes without its scripts"),
    ("pro", {"dockerhub_tag": None}, "without dockerhub_tag or image"),
    ("pro", {"selected_test_files_to_run": "__import__('os')"}, "needs a list of names"),
    ("pro", {"environment": {"memory_mb": -1}}, "memory_mb must be a positive number"),
]


@pytest.mark.parametrize(("kind", "changes", "message"), REFUSED)
def test_a_row_that_cannot_be_used_says_what_it_is(
    kinds: dict[str, Row], kind: str, changes: Row, message: str
) -> None:
    """One line names the kind of row, and what is wrong with it."""
    with pytest.raises(DatasetError) as failure:
        read_row(kinds[kind] | changes)
    assert message in str(failure.value)
    assert "\n" not in str(failure.value)


def test_each_kind_has_its_image_place_and_resources(kinds: dict[str, Row]) -> None:
    """The reader gives what the publishers' own harnesses use."""
    read = {kind: read_row(row) for kind, row in kinds.items()}
    places = {kind: (task.image, task.root) for kind, task in read.items()}
    assert places == {
        "live": ("i", "/testbed"),
        "rebench": ("i", f"/{kinds['rebench']['repo'].split('/')[1]}"),
        "pro": ("jefzda/sweap-images:a.b-1", "/app"),
    }
    assert "(\nset -e\nmake\nmake check\n)" in read["rebench"].eval_script
    config = json.dumps(kinds["rebench"]["install_config"])
    as_text = read_row({**kinds["rebench"], "install_config": config})
    assert as_text.eval_script == read["rebench"].eval_script
    del kinds["pro"]["before_repo_set_cmd"]
    assert read_row(kinds["pro"]).image == read["pro"].image
    unnamed = read_row({**kinds["live"], "docker_image": None})
    assert unnamed.image == "starryzhang/sweb.eval.x86_64.a_1776_b-1"
    assert read["live"].demand.memory_gb == 16


@pytest.mark.parametrize(
    ("statuses", "live", "others"),
    [
        ({"a": "PASSED", "b": "pass", "c": "passed"}, True, True),
        ({"a": "PASSED", "b": "PASSED"}, True, False),
        ({"a": "PASSED", "b": "SKIPPED", "c": "skip"}, True, False),
        ({"a": "PASSED", "b": "ERROR", "c": "PASSED"}, False, False),
        ({"a [1.2 ms]": "PASSED", "b (3s)": "PASSED", "c": "PASSED"}, True, True),
        ({"c": "PASSED"}, False, False),
        ({}, False, False),
    ],
)
def test_the_verdict_follows_the_publisher(
    kinds: dict[str, Row], statuses: dict[str, str], live: bool, others: bool
) -> None:
    """SWE-bench-Live counts reported failures only. For the others, each test has to pass."""
    verdicts = {
        kind: own_rules.decide(read_row(row), statuses).resolved for kind, row in kinds.items()
    }
    assert verdicts == {"live": live, "rebench": others, "pro": others}


def test_no_test_runs_without_the_test_patch(kinds: dict[str, Row], tmp_path: Path) -> None:
    """A test patch that does not apply leaves no result, which SWE-bench-Live could forgive."""
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    patch = "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n"
    for text, runs in ((patch, False), ("", True)):
        script = read_row({**kinds["live"], "test_patch": text}).eval_script
        script = script.replace("/testbed", str(tmp_path)).replace("/tmp/test", f"{tmp_path}/test")
        variables = {**os.environ, "HOME": str(tmp_path)}
        command = ["bash", "-c", script]
        done = subprocess.run(command, capture_output=True, text=True, env=variables, check=False)
        assert (harness.log_markers()[0] in done.stdout) == runs


def test_scripts_outside_their_folder_are_not_read(kinds: dict[str, Row], tmp_path: Path) -> None:
    """An instance id cannot name another folder."""
    (tmp_path / "run_scripts").mkdir()
    for name in ("run_script.sh", "parser.py"):
        (tmp_path / name).write_text("x")
    row = {**kinds["pro"], "run_script": None, "instance_id": "../"}
    assert commands.add_scripts(row, tmp_path / "rows.jsonl") == row


@pytest.mark.full
def test_32000_rows_are_read_in_seconds(kinds: dict[str, Row], tmp_path: Path) -> None:
    """Their names of tests, most of a row, are in memory once."""
    path = tmp_path / "rows.jsonl"
    tests = {"PASS_TO_PASS": json.dumps([f"tests/test_it.py::test_{n:064}" for n in range(130)])}
    with path.open("w") as file:
        for number in range(32_000):
            row = {**kinds["rebench"], **tests, "instance_id": f"a__b-{number}"}
            file.write(json.dumps(row) + "\n")
    before = time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert len(instances.load(str(path))) == 32_000
    assert time.process_time() - before[0] < 5
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before[1] < 500_000  # kB
