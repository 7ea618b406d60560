"""Patches that break the tests or forge their output get swebench's verdict, without network."""

import asyncio
import ensurepip
import io
import os
import tarfile
import zipfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from agent.workspaces import DockerWorkspace
from eval import images, instances, upstream
from eval.audit import Audit, audit
from eval.grading import grade
from eval.types import Evaluation, Instance
from tests.eval.broken_patches import code
from tests.eval.official_cases import Patches

pytestmark = [
    pytest.mark.full,
    pytest.mark.docker,
    pytest.mark.slow,
]

TASK = "durabench__tidyini-1"
PACKAGE = "src/tidyini/__init__.py"
IMAGE = f"durabench/test-broken-{os.environ.get('PYTEST_XDIST_WORKER', 'alone')}:pip"
AT_ONCE = 4

START = ": '>>>>> Start Test Output'\n"

# Fails at once. swebench attributes its message to broken infrastructure, as it does pip's.
ASK = "git ls-remote https://nowhere.invalid\n"
PIP = "python3 -m pip install --break-system-packages no-such-distribution"

"""Patches that swebench's own, slow runner grades too: one of each kind."""


@dataclass(frozen=True)
class Graded:
    evaluation: Evaluation
    audit: Audit


@pytest.fixture(scope="module")
def task(docker_client: Any) -> Iterator[Instance]:
    """Yield a bundled task whose image has pip and whose script tries to use the network."""
    [plain] = [each for each in instances.load("bundled") if each.instance_id == TASK]
    repo = instances.task_repo("bundled")
    assert repo is not None
    list(images.build([plain], repo, client=docker_client))
    container = docker_client.containers.create(plain.image, "true")
    container.put_archive("/usr/lib/python3/dist-packages", pip())
    name, tag = IMAGE.split(":")
    container.commit(name, tag)
    container.remove()
    yield scripted(replace(plain, image=IMAGE), START, ASK + START)
    docker_client.images.remove(IMAGE, force=True)


def scripted(instance: Instance, old: str, new: str) -> Instance:
    """Return the instance with part of its eval script replaced."""
    script = instance.eval_script.replace(old, new)
    assert script != instance.eval_script
    row = {**instance.row, "eval_script": script, "image": instance.image}
    return replace(instance, eval_script=script, row=row)


def pip() -> bytes:
    """Return the pip that ships with this Python, as a tar archive of its package."""
    bundled = Path(ensurepip.__file__).parent / "_bundled"
    wheels = sorted(bundled.glob("pip-*.whl"))
    if not wheels:
        pytest.skip("this Python was installed without its own pip")
    packed = io.BytesIO()
    with zipfile.ZipFile(wheels[0]) as wheel, tarfile.open(fileobj=packed, mode="w") as archive:
        for name in wheel.namelist():
            content = wheel.read(name)
            member = tarfile.TarInfo(name)
            member.size, member.mode = len(content), 0o644
            archive.addfile(member, io.BytesIO(content))
    return packed.getvalue()


@pytest.fixture(scope="module")
def patches(task: Instance, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    root = tmp_path_factory.mktemp("tree")
    folder = root / "repository"
    upstream.checkout(task.repo, task.base_commit, folder, root / "cache")
    package = folder / PACKAGE
    original, make = package.read_text(), Patches(folder, begin=False)
    return {
        name: make.of(lambda _, code=code: package.write_text(code + original))
        for name, code in code((*task.fail_to_pass, *task.pass_to_pass)).items()
    }


@asynccontextmanager
async def opened(task: Instance, *, network: bool = False) -> AsyncIterator[DockerWorkspace]:
    shell = await DockerWorkspace.open(
        image=task.image, base_commit=task.base_commit, network=network
    )
    try:
        yield shell
    finally:
        await shell.close()


@pytest.fixture(scope="module")
def graded(task: Instance, patches: dict[str, str]) -> dict[str, Graded]:
    """Grade every patch, each in a container of its own without network."""
    slots = asyncio.Semaphore(AT_ONCE)

    async def one(name: str, patch: str) -> tuple[str, Graded]:
        async with slots, opened(task) as shell:
            found = await grade(task, patch, shell, timeout_s=120)
        return name, Graded(found, audit(task, found))

    async def every() -> dict[str, Graded]:
        given = {"gold": task.patch, "null": "", **patches}
        return dict(await asyncio.gather(*(one(*each) for each in given.items())))

    return asyncio.run(every())


@pytest.mark.parametrize("name", code(()))
def test_the_verdict_is_that_of_swebench(
    name: str, task: Instance, patches: dict[str, str], graded: dict[str, Graded], tmp_path: Path
) -> None:
    """The verdict equals that of swebench's own function on the same log; its guesses at a cause
    decide nothing. Forged results that it accepts are suspect."""
    from swebench.harness.grading import get_eval_report
    from swebench.harness.utils import make_test_spec

    found = graded[name].evaluation
    log = tmp_path / "log"
    log.write_text(found.log)
    prediction = {"instance_id": TASK, "model_name_or_path": "x", "model_patch": patches[name]}
    spec = make_test_spec(task.row)
    theirs = get_eval_report(spec, prediction, str(log), include_tests_status=True)[TASK]
    official = "resolved" if theirs["resolved"] else "unresolved"
    assert (found.outcome, found.resolved) == (official, theirs["resolved"])
    assert graded[name].audit.verdict == ("suspect" if theirs["resolved"] else "unresolved")
    assert not theirs["resolved"] or name.startswith("forges")
    assert theirs.get("infra_failure_reason", "") in found.reason


def test_the_controls_get_their_usual_verdicts(graded: dict[str, Graded]) -> None:
    """The controls get their usual verdicts although nothing can be installed. No reason mentions
    the network if the tests ran."""
    assert graded["gold"].audit == Audit("resolved", ())
    assert graded["gold"].evaluation.reason == ""
    assert "Could not resolve host" in graded["gold"].evaluation.log
    assert graded["null"].evaluation.outcome == "unresolved"
    assert "network" not in graded["null"].evaluation.reason


async def test_the_reason_names_the_network_if_the_tests_need_it(task: Instance) -> None:
    """If the tests need the network, the reason names the option that enables it, whether or not
    the installer retried."""
    for retries, line in (("", "(from versions: none)"), ("PIP_RETRIES=1 ", "Failed to establish")):
        instance = scripted(task, ASK, f"{retries}{PIP} || rm -r src\n")
        async with opened(task) as shell:
            found = await grade(instance, task.patch, shell, timeout_s=120)
        assert found.outcome == "unresolved"
        assert ("Retrying" in found.log) == bool(retries)
        assert line in found.reason
        assert "try `--network`, or `network: true` in an experiment" in found.reason
