"""`durabench grade` on predictions of others."""

import json
from collections.abc import Mapping

import pytest
from docker import DockerClient

from eval import images, instances
from tests.journeys.command_line import Terminal
from tests.unfit_images import layered

pytestmark = pytest.mark.slow

FIRST, SECOND = instances.load("bundled")[:2]


def write_predictions(terminal: Terminal, patches: Mapping[str, str]) -> None:
    """Write a file of predictions, with a patch for each instance id."""
    predictions = [
        {"instance_id": each, "model_name_or_path": "them", "model_patch": patch}
        for each, patch in patches.items()
    ]
    (terminal.folder / "all_preds.jsonl").write_text(
        "".join(f"{json.dumps(each)}\n" for each in predictions)
    )


@pytest.mark.journey("grade")
def test_they_are_graded_once_with_their_reasons(terminal: Terminal, environment: str) -> None:
    """Each verdict is printed with its reason. Grading again runs no test and says the same."""
    patches = {FIRST.instance_id: FIRST.patch, SECOND.instance_id: "no patch at all"}
    write_predictions(terminal, patches)
    grade = ("grade", "all_preds.jsonl", "--name", "foreign", "-e", environment)
    printed = terminal.durabench(*grade)
    assert f"grade them · {FIRST.instance_id}: resolved\n" in printed
    assert f"grade them · {SECOND.instance_id}: patch_failed: " in printed
    assert "them resolves 1 of 2" in printed
    assert "suspect: 0 of 1 resolved patch" in printed
    first = sorted(terminal.rows("evaluations"), key=lambda row: row["instance_id"])
    assert [row["outcome"] for row in first] == ["resolved", "patch_failed"]
    assert "suspect: 0 of 1 resolved patch" in terminal.durabench(*grade)
    again = sorted(terminal.rows("evaluations"), key=lambda row: row["instance_id"])
    assert again == first


@pytest.mark.docker
@pytest.mark.usefixtures("docker_client")
@pytest.mark.full
def test_tests_that_reach_a_limit_have_no_verdict_until_it_is_raised(terminal: Terminal) -> None:
    """A row asks for too little memory. The line names the limit and the remedy."""
    run = "python -m pytest"
    script = FIRST.eval_script.replace(run, f"python3 -c 'bytearray(300 * 2**20)' && {run}")
    row = {**FIRST.row, "eval_script": script, "resources": {"memory_gb": 0.125}}
    (terminal.folder / "rows.jsonl").write_text(json.dumps(row, default=str))
    write_predictions(terminal, {FIRST.instance_id: FIRST.patch})
    grade = ("grade", "all_preds.jsonl", "--name", "small", "-d", "rows.jsonl", "-e", "docker")
    limit = "the tests reached the memory limit of 0.125 GB: raise resources.memory_gb"
    assert limit in terminal.durabench(*grade, code=3)
    assert "memory_gb: 1000000, and Docker's machine has" in terminal.durabench(
        *grade, "--resources", "memory_gb=1000000", code=2
    )
    terminal.durabench(*grade, "--resources", "memory_gb=1")
    rows = terminal.rows("evaluations")
    assert {row["memory_gb"]: row["outcome"] for row in rows} == {
        0.125: "infrastructure",
        1.0: "resolved",
    }
    [report] = (terminal.folder / "lake").glob("reports/small/*.md")
    assert "Resources: 1 GB of memory, 2 processors, 1,024 processes and" in report.read_text()


@pytest.mark.docker
@pytest.mark.full
def test_an_image_that_was_built_anew_counts_once(
    terminal: Terminal, docker_client: DockerClient
) -> None:
    """The verdict on the earlier image stays on record, and each figure counts cells."""
    repo = instances.task_repo("bundled")
    assert repo is not None
    list(images.build([FIRST], repo, client=docker_client))
    write_predictions(terminal, {FIRST.instance_id: FIRST.patch})
    grade = ("grade", "all_preds.jsonl", "--name", "anew", "-d", "rows.jsonl", "-e", "docker")
    for gradings, layer in enumerate(("RUN true", "RUN touch /later"), 1):
        with layered(FIRST.image, layer, docker_client) as image:
            row = json.dumps({**FIRST.row, "image": image}, default=str)
            (terminal.folder / "rows.jsonl").write_text(row)
            printed = terminal.durabench(*grade)
        assert "them resolves 1 of 1" in printed
        assert "\nsuspect: 0 of 1 resolved patch\n" in printed
        assert len(terminal.rows("evaluations")) == gradings
