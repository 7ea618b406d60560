"""Steps on one repository become one draft pull request."""

import asyncio
from typing import Any
from uuid import UUID

import pytest
from prefect.client.orchestration import get_client
from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterId

from flows.display.errors import GateFailed
from flows.jobs import runs
from flows.jobs.pipeline import pipeline as run_pipeline
from flows.storage.lake import Lake, Row
from tests.flows.jobs.conftest import BREAK, NAME, REPAIR, pipeline, step
from tests.servers.forge import Forge

pytestmark = [pytest.mark.usefixtures("prefect"), pytest.mark.slow]

ADD = "echo '# Notes' >NOTES.md"


def states(lake_path: str, run: str) -> dict[str, str]:
    """Return the states of the steps of a run."""
    lake = Lake.existing(lake_path)
    return {each["name"]: each["state"] for each in runs.read_states(row_of(lake_path, run), lake)}


def row_of(lake_path: str, run: str) -> Row:
    return runs.find(Lake.existing(lake_path), run)


async def test_steps_build_on_each_other_and_become_one_pull_request(
    forge: Forge, lake_path: str
) -> None:
    """Two steps at the same time feed a third one, which sees the changes and outputs of both."""
    seen = "test -f NOTES.md && grep -q 'a + b' calc.py && cp NOTES.md SEEN.md; echo saw"
    task = "After {{steps.add-notes.output.files}}: {{steps.Fix_it.output.verdict}}"
    asked = pipeline(
        step("Fix_it", REPAIR),
        step("add-notes", ADD),
        step("both", seen, "Fix_it", "add-notes", task=task),
    )
    base = forge.branches(NAME)["main"]
    run = await run_pipeline(asked, lake_path)
    row = row_of(lake_path, run)
    assert (row["state"], row["verdict"]) == ("done", "nothing_broke")
    assert set(states(lake_path, run).values()) == {"done"}
    branch = f"durabench/a-release-{run}"
    assert forge.branches(NAME) == {"main": base, branch: row["commit"]}
    log = forge.git(NAME, "log", "--reverse", "--format=%s", f"main..{branch}").splitlines()
    assert log == ["Do Fix_it.", "Do add-notes.", "After NOTES.md: nothing_broke"]
    assert forge.git(NAME, "show", f"{branch}:SEEN.md") == "# Notes"
    [pull] = forge.pulls[NAME]
    assert (pull["draft"], pull["title"]) == (True, "A release")
    assert "| add-notes | done | nothing broke | add-notes |" in pull["body"]
    assert row["cost_usd"] == 0
    wanted = {"Fix_it": "Done", "add-notes": "Done", "both": "Done after Fix_it, add-notes"}
    async with asyncio.timeout(60):  # Prefect writes task runs some time after their states
        while await drawn(row["flow_run_id"]) != wanted:
            await asyncio.sleep(0.2)


async def test_a_step_that_changes_nothing_is_done(forge: Forge, lake_path: str) -> None:
    """It may run tests or answer. The others go on, and a name of several words is a title."""
    asked = pipeline(step("look", "true"), step("fix", REPAIR, "look"), name="Full CI", title="")
    assert (asked.name, asked.title) == ("full-ci", "Full CI")
    run = await run_pipeline(asked, lake_path)
    assert states(lake_path, run) == {"look": "done", "fix": "done"}
    [pull] = forge.pulls[NAME]
    assert "| look | done | " in pull["body"]
    assert forge.git(NAME, "rev-list", "--count", f"main..{pull['head']['ref']}") == "1"


async def drawn(flow_run_id: str) -> dict[str, str]:
    """Return the steps of a run as Prefect draws them: their states, and their predecessors."""
    own = FlowRunFilter(id=FlowRunFilterId(any_=[UUID(flow_run_id)]))
    async with get_client() as client:
        found = await client.read_task_runs(flow_run_filter=own)
    names = {run.id: run.name for run in found}
    shown = {}
    for run in found:
        if run.task_key.startswith("run_step"):
            before = [names[each.id] for each in run.task_inputs.get("wait_for", [])]  # type: ignore[union-attr]
            after = f" after {', '.join(sorted(before))}" if before else ""
            shown[run.name] = f"{run.state_name}{after}"
    return shown


@pytest.mark.full
async def test_a_failing_step_that_may_fail_feeds_two_others(forge: Forge, lake_path: str) -> None:
    """The others continue without its change, unless they need its output."""
    needs = "Explain {{steps.may-fail.output.summary}}"
    asked = pipeline(
        step("may-fail", BREAK, on_failure="continue"),
        step("left", REPAIR, "may-fail"),
        step("right", ADD, "may-fail"),
        step("needy", ADD, "may-fail", task=needs, on_failure="continue"),
    )
    run = await run_pipeline(asked, lake_path)
    expected = {"may-fail": "failed", "left": "done", "right": "done", "needy": "failed"}
    assert states(lake_path, run) == expected
    branch = row_of(lake_path, run)["branch"]
    assert forge.git(NAME, "show", f"{branch}:calc.py").endswith("a + b")
    assert forge.git(NAME, "show", f"{branch}:NOTES.md") == "# Notes"
    body = forge.pulls[NAME][0]["body"]
    assert "step may-fail left no summary, which its task needs" in body
    assert r"test\_zero fails and did not before" in body


@pytest.mark.full
async def test_patches_that_do_not_fit_together_fail_the_step(forge: Forge, lake_path: str) -> None:
    """The message names both steps."""
    other = "sed -i 's/a - b/b + a/' calc.py"
    asked = pipeline(step("one", REPAIR), step("two", other), step("three", ADD, "one", "two"))
    with pytest.raises(GateFailed, match="step two does not fit together with the patches of one"):
        await run_pipeline(asked, lake_path)


@pytest.mark.full
async def test_the_whole_is_judged(forge: Forge, lake_path: str) -> None:
    """Steps that pass alone and break tests together are not published."""
    test = "printf 'from pathlib import Path\\n\\ndef test_no_notes():\\n" \
        "    assert not Path(\"NOTES.md\").exists()\\n' >test_notes.py"  # fmt: skip
    asked = pipeline(step("test", test), step("notes", ADD))
    with pytest.raises(GateFailed, match="the steps together break tests"):
        await run_pipeline(asked, lake_path)
    assert list(forge.branches(NAME)) == ["main"]


@pytest.mark.full
@pytest.mark.docker
async def test_a_later_step_keeps_what_the_image_installed(
    forge: Forge, lake_path: str, docker_client: Any
) -> None:
    """Its image is the base's image with the commits of earlier steps in it."""
    kept = "test -f /testbed/built.txt && cp /testbed/built.txt kept.md"
    declared = '{"image": "durabench/base:bookworm", "postCreateCommand": "touch built.txt"}'
    files = {".gitignore": "built.txt\n", ".devcontainer.json": declared}
    forge.commit(NAME, files, "devcontainer")
    asked = pipeline(
        step("fix", REPAIR),
        step("later", kept, "fix"),
        environment="docker",
    )
    run = await run_pipeline(asked, lake_path)
    images = {row["image"] for row in Lake.existing(lake_path).all_shared("jobs")}
    for image in sorted(images, reverse=True):
        docker_client.images.remove(image, force=True)
    assert states(lake_path, run) == {"fix": "done", "later": "done"}
    assert len(images) == 2
