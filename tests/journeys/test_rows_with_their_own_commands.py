"""Tasks of the three published kinds that bring their own commands, and one that ends by exit code.

Their images are stand-ins: a bundled task, with its repository where the publisher has it.
"""

import base64
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest
from docker import DockerClient

from eval import images, instances
from tests.journeys.command_line import Terminal

pytestmark = [pytest.mark.docker, pytest.mark.journey("run", "grade", "images preflight")]

TASK = instances.load("bundled")[0]
PRO = TASK.instance_id  # the simulated models know it
IMAGE = "durabench-test/own-commands:latest"
PYTEST = "python -m pytest -rA -p no:cacheprovider tests"
PREPARE = f"""
set -e
cd /testbed
base64 -d <<< {base64.b64encode(TASK.test_patch.encode()).decode()} | git apply
git add -A
git -c user.name=a -c user.email=a commit -qm later && git tag -f later
git reset -q --hard HEAD~1
cp -a /testbed /app
cp -a /testbed /pocket
"""

FUNCTION = """
def parser(log):
    words = {"PASSED": "pass", "FAILED": "fail", "SKIPPED": "skip"}
    lines = [line.split() for line in log.splitlines() if line.split()[:1]]
    return {line[1]: words[line[0]] for line in lines if line[0] in words and len(line) > 1}
"""

PROGRAM = """
import json, sys
tests = []
for line in open(sys.argv[1]):
    words = line.split()
    if len(words) > 1 and words[0] in ("PASSED", "FAILED"):
        tests.append({"name": words[1], "status": words[0]})
assert "to standard error" in open(sys.argv[2]).read()
json.dump({"tests": tests}, open(sys.argv[3], "w"))
"""

RUN_SCRIPT = f"""
echo to standard error >&2
[ "$1" = tests/a,tests/b ] || exit 3
{PYTEST}
"""


@pytest.fixture(scope="module")
def image(docker_client: DockerClient) -> Iterator[str]:
    """Yield the image with the repository in each of the three places."""
    repo = instances.task_repo("bundled")
    assert repo is not None
    list(images.build([TASK], repo, client=docker_client))
    container = docker_client.containers.run(TASK.image, ["bash", "-c", PREPARE], detach=True)
    assert container.wait()["StatusCode"] == 0, container.logs()
    container.commit(IMAGE.removesuffix(":latest"), "latest")
    container.remove()
    yield IMAGE
    docker_client.images.remove(IMAGE, force=True)


def list_rows(image: str) -> list[dict[str, Any]]:
    """Return a row of each kind, as their publishers write them."""
    same = {
        "base_commit": TASK.base_commit,
        "problem_statement": TASK.problem_statement,
        "patch": TASK.patch,
        "test_patch": TASK.test_patch,
        "FAIL_TO_PASS": list(TASK.fail_to_pass),
        "PASS_TO_PASS": list(TASK.pass_to_pass),
    }
    names = {name: str(same[name]) for name in ("FAIL_TO_PASS", "PASS_TO_PASS")}
    live = {"repo": "a/live", "docker_image": image, "test_cmds": [PYTEST]}
    return [
        {**same, **live, "instance_id": "a__live-1", "log_parser": FUNCTION},
        {
            **same,
            **live,
            "instance_id": "a__live-2",
            "test_cmds": [f"{PYTEST} >/tmp/log"],
            "print_cmds": ["cat /tmp/log"],
            "log_parser": "pytest",
        },
        {
            **{name: same[name] for name in same if name not in names},
            **live,
            "instance_id": "a__live-3",
            "log_parser": "exit_code",
        },
        {
            **same,
            "instance_id": "a__pocket-1",
            "repo": "a/pocket",
            "image_name": image,
            "created_at": 1609298073000,
            "install_config": {"test_cmd": PYTEST, "log_parser": "parse_log_pytest"},
        },
        {
            **same,
            "instance_id": PRO,
            "repo": TASK.repo,
            "image": image,
            "fail_to_pass": names["FAIL_TO_PASS"],
            "pass_to_pass": names["PASS_TO_PASS"],
            "before_repo_set_cmd": "git reset --hard x\ngit checkout later -- tests",
            "selected_test_files_to_run": "['tests/a', 'tests/b']",
        },
    ]


def write_dataset(folder: Path, rows: list[dict[str, Any]]) -> Path:
    """Write the rows, with the scripts of the fifth beside them."""
    scripts = folder / "run_scripts" / PRO
    scripts.mkdir(parents=True)
    (scripts / "run_script.sh").write_text(RUN_SCRIPT)
    (scripts / "parser.py").write_text(PROGRAM)
    path = folder / "rows.jsonl"
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return path


def test_gold_is_resolved_and_null_is_not(image: str, tmp_path: Path) -> None:
    """Each kind of row has the publisher's verdict, in a run, in a preflight and for a file."""
    terminal = Terminal(tmp_path)
    rows = list_rows(image)
    dataset = write_dataset(tmp_path, [*rows, {**rows[0], "instance_id": "a__bad-1", "patch": 3}])
    arms = [{"name": name, "agent": name} for name in ("gold", "null")]
    content = {"name": "own", "dataset": "rows.jsonl", "arms": arms, "environment": "docker"}
    printed = terminal.durabench("run", terminal.write("own.yaml", content))
    assert "1 of 6 rows of rows.jsonl cannot be used" in printed
    assert "a SWE-bench-Live row patch must be text, not int" in printed
    verdicts = read_verdicts(terminal, "own")
    expected = {("gold", row["instance_id"]): "resolved" for row in rows}
    unresolved = {("null", row["instance_id"]): "unresolved" for row in rows}
    assert verdicts == expected | unresolved

    checked = terminal.durabench("images", "preflight", "--dataset", str(dataset), code=1)
    assert checked.count("fails; elsewhere: ") == len(rows), checked  # copies in the stand-in
    assert not re.search("gold:|null:", checked), checked

    broken = re.sub(r"^\+(?!\+).*$", "+raise SystemExit(0)", TASK.patch, count=1, flags=re.M)
    lines = [
        {"instance_id": row["instance_id"], "model_name_or_path": "m", "model_patch": broken}
        for row in rows
    ]
    (tmp_path / "preds.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    terminal.durabench("grade", "preds.jsonl", "--dataset", str(dataset), "--name", "broken")
    assert list(read_verdicts(terminal, "broken").values()) == ["unresolved"] * len(rows)


def test_an_arm_works_where_the_publisher_has_the_repository(image: str, tmp_path: Path) -> None:
    """The arms find the repository in /app, run its tests there, and are graded there."""
    terminal = Terminal(tmp_path)
    write_dataset(tmp_path, list_rows(image))
    model = {"provider": "simulated", "skill": 1.0, "wrong_anchors": 0}
    arms = [{"name": name, "agent": name, "model": model} for name in ("mini", "durable")]
    content = {"name": "arms", "dataset": "rows.jsonl", "arms": arms, "environment": "docker"}
    content["select"] = {"ids": [PRO]}
    terminal.durabench("run", terminal.write("arms.yaml", content))
    assert set(read_verdicts(terminal, "arms").values()) == {"resolved"}


def read_verdicts(
    terminal: Terminal, experiment: str, column: str = "audited_verdict"
) -> dict[tuple[str, str], str]:
    """Return the verdicts of an experiment, by arm and instance."""
    read = f"""
        select arm, instance_id, {column}
        from read_parquet(?, hive_partitioning = true) where experiment = ?
    """
    files = str(terminal.folder / "lake" / "evaluations" / "**" / "*.parquet")
    rows = duckdb.execute(read, [files, experiment]).fetchall()
    return {(arm, instance_id): verdict for arm, instance_id, verdict in rows}
