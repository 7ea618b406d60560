"""Gradings lost to infrastructure, in real containers: recorded with a reason, never final."""

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agent.errors import InfrastructureError
from eval import images
from eval.types import Instance
from flows.cells import attempts
from flows.experiments.cells import Place, Submission
from flows.storage.lake import Lake, Row

pytestmark = [
    pytest.mark.docker,
    pytest.mark.slow,
    pytest.mark.usefixtures("prefect"),
]

MakeInstance = Callable[..., Instance]

SLOW_START = "touch /tmp/begun; sleep 10"


@pytest.fixture(scope="module")
def image_ids(
    make_instance: MakeInstance,
    make_task_repo: Callable[..., Path],
    docker_client: Any,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[dict[str, str]]:
    """Yield the id of an image of the broken package, and one of an image that does not exist."""
    root = tmp_path_factory.mktemp("outcomes")
    instance = make_instance(image="durabench/test-outcomes:whole")
    make_task_repo(root, instance)
    list(images.build([instance], root, client=docker_client))
    yield {"whole": docker_client.images.get(instance.image).id, "absent": "sha256:0"}
    docker_client.images.remove(instance.image, force=True)


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake.open(tmp_path / "lake")


@pytest.fixture
def submit(
    make_instance: MakeInstance,
    image_ids: dict[str, str],
    lake: Lake,
    gold: str,
    monkeypatch: pytest.MonkeyPatch,
) -> Callable[..., Any]:
    """Return a function that grades the reference patch. Prefect's own retries are off; other tests
    cover them."""
    monkeypatch.setattr(attempts.evaluate, "retries", 0)

    async def graded(before_tests: str = "", tag: str = "whole", patch: str = gold) -> str:
        script = make_instance().eval_script.replace("git status\n", f"{before_tests}\n")
        image = f"durabench/test-outcomes:{tag}"
        instance = replace(make_instance(eval_script=script, image=image), base_commit="HEAD")
        place = Place("docker", image_ids[tag])
        submission = Submission("trial", "a", instance, 0, "attempt", patch, place, 60.0)
        return (await attempts.grade_submission(submission, lake, twice=False)).outcome

    return graded


def rows(lake: Lake) -> list[Row]:
    units = lake.units("evaluations", "*")
    return [row for unit in units for row in lake.find("evaluations", unit)]


async def kill_when_begun(client: Any) -> None:
    """Kill the container of the grading while its script runs."""
    for _ in range(300):
        for container in client.containers.list(
            filters={"label": "durabench.instance"}, ignore_removed=True
        ):
            if container.labels["durabench.instance"] != "tiny__calc-1":
                continue
            begun = await asyncio.to_thread(container.exec_run, "test -e /tmp/begun")
            if begun.exit_code == 0:
                container.kill()
                return
        await asyncio.sleep(0.1)


@pytest.mark.full
async def test_a_container_that_is_killed_is_no_verdict(
    submit: Callable[..., Any], lake: Lake, docker_client: Any
) -> None:
    """A killed container is recorded with its reason, and the next run grades the patch."""
    killing = asyncio.create_task(kill_when_begun(docker_client))
    with pytest.raises(InfrastructureError):
        await submit(SLOW_START)
    await killing
    [row] = rows(lake)
    assert (row["outcome"], row["resolved"]) == ("infrastructure", False)
    assert "container" in row["reason"]
    assert await submit(SLOW_START) == "resolved"
    [row] = rows(lake)
    assert (row["outcome"], row["resolved"], row["reason"]) == ("resolved", True, "")


@pytest.mark.full
async def test_the_network_is_named_only_while_it_may_be_the_cause(
    submit: Callable[..., Any], lake: Lake
) -> None:
    """A patch whose tests do not report may fail for the missing network, until the reference patch
    is resolved without it."""
    use = "git ls-remote https://nowhere.invalid"
    head = "--- a/calc.py\n+++ b/calc.py\n@@ -1,2 +1,3 @@\n"
    breaks = head + "+__import__('os')._exit(1)  # {}\n def add(a, b):\n"
    reasons = {}
    for name, patch in (("first", breaks), ("gold", None), ("second", breaks)):
        given = {"patch": f"{patch}     return a - b\n".format(name)} if patch else {}
        assert await submit(use, **given) == ("unresolved" if patch else "resolved")
        known = {row["patch_sha256"] for row in reasons.values()}
        [reasons[name]] = [row for row in rows(lake) if row["patch_sha256"] not in known]
    assert "if the reference patch fails here too, use `--network`" in reasons["first"]["reason"]
    assert "--network" not in reasons["second"]["reason"]
