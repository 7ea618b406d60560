"""The preflight checks an image's git history, its reference patch and the empty patch."""

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from agent.workspaces import DockerWorkspace
from eval import grading, images
from eval.errors import ImageError
from eval.preflight import check, preflight_key
from eval.types import GradingShell, Instance
from tests.eval.containers import output_of

pytestmark = [pytest.mark.docker, pytest.mark.slow]

MakeInstance = Callable[..., Instance]

LATER = "echo later >> calc.py && git -c user.name=x -c user.email=x@x.org commit -qam later"
FORGET = "git reset -q --hard HEAD~ && rm -f .git/ORIG_HEAD && git reflog expire --expire=now --all"

SUM = "the_sum_of_both_numbers"
REPAIR = [f"{SUM} = a + b", f"assert {SUM} == b + a", f"return {SUM}  # and no difference"]
REPAIRED = "sed -i 's/return a - b/" + r"\n    ".join(REPAIR) + "/'"

DOCTORED = {
    "clean": ("true", None),
    "dangling": (f"{LATER} && {FORGET}", None),
    "tag": (f"{LATER} && git tag v2 && {FORGET}", None),
    "copy": (
        f"git clone -q . /opt/copy && cd /opt/copy && {LATER}",
        "elsewhere: /opt/copy/.git",
    ),
    "bundle": (
        f"{LATER} && git bundle create -q /srv/x.bundle main && {FORGET} && git gc -q --prune=now",
        "elsewhere: /srv/x.bundle",
    ),
    "installed release": (
        "mkdir -p /opt/site-packages && cp calc.py /opt/site-packages && "
        f"{REPAIRED} /opt/site-packages/calc.py",
        "copy: /opt/site-packages/calc.py has the lines of the reference patch",
    ),
    "patch": (
        f"{REPAIRED} calc.py && git diff >/srv/notes.txt && git checkout -q .",
        "copy: /srv/notes.txt has the lines of the reference patch",
    ),
    "installed release before the repair": (
        f"mkdir -p /opt/calc && cp calc.py /opt/calc && echo '{REPAIR[-1]}' >>/opt/calc/more.py",
        None,
    ),
}
"""Commands that doctor an image, and the beginning of the expected reason, if any."""

ALWAYS = ("clean", "bundle", "installed release")
"""Images that every test run checks."""

Doctor = Callable[[str], Instance]


@pytest.fixture(scope="module")
def doctored(
    docker_client: Any,
    make_instance: MakeInstance,
    make_task_repo: Callable[..., Path],
    tmp_path_factory: pytest.TempPathFactory,
    gold: str,
) -> Iterator[Doctor]:
    """Yield a function that builds an image, and returns its instance with its base commit."""
    repair = "".join(f"+    {line}\n" for line in REPAIR)
    patch = gold.replace("+    return a + b\n", repair).replace("+1,5", "+1,7")

    @cache
    def build(name: str) -> Instance:
        slug = name.replace(" ", "-")
        image = f"durabench/test-preflight:{slug}"
        instance = make_instance(instance_id=f"tiny__{slug}", image=image, patch=patch)
        root = make_task_repo(tmp_path_factory.mktemp(slug), instance)
        with (root / "tasks" / instance.instance_id / "Dockerfile").open("a") as dockerfile:
            dockerfile.write("RUN git rev-parse HEAD > /base-commit\n")
            dockerfile.write(f"RUN {DOCTORED[name][0]}\n")
        list(images.build([instance], root, client=docker_client))
        tags.append(image)
        commit = output_of(image, "cat /base-commit", docker_client).decode().strip()
        return replace(instance, base_commit=commit)

    tags: list[str] = []
    yield build
    for image in tags:
        docker_client.images.remove(image, force=True)


def opener(instance: Instance) -> Callable[[], AbstractAsyncContextManager[GradingShell]]:
    """Return a function that opens fresh containers of an instance."""

    @asynccontextmanager
    async def fresh() -> AsyncIterator[GradingShell]:
        shell = await DockerWorkspace.open(image=instance.image, base_commit=instance.base_commit)
        try:
            yield shell
        finally:
            await shell.close()

    return fresh


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[] if n in ALWAYS else pytest.mark.full) for n in DOCTORED]
)
async def test_an_image_with_later_commits_fails(name: str, doctored: Doctor) -> None:
    """An image that hides later commits outside its repository fails, for that reason alone. One
    that is clean passes, and so does one whose own later commits are removed at the opening."""
    found = await check(doctored(name), opener(doctored(name)))
    _, begins = DOCTORED[name]
    assert found.passed == (begins is None)
    assert [r for r in found.reasons if not r.startswith(begins or "-")] == []


async def test_a_reference_patch_that_resolves_nothing_fails(doctored: Doctor, gold: str) -> None:
    """An image whose reference patch does not resolve fails: it would count against every arm."""
    instance = replace(doctored("clean"), patch=gold.replace("a + b", "a * b"))
    [reason] = (await check(instance, opener(instance))).reasons
    assert reason.startswith(
        "gold: the reference patch is unresolved: failing tests that still fail: 1"
    )


@pytest.mark.full
async def test_tests_that_pass_without_a_patch_fail(
    doctored: Doctor, make_instance: MakeInstance
) -> None:
    """An image whose tests pass without a patch fails: it would count for every arm."""
    passing = make_instance(FAIL_TO_PASS=["test_calc.py::test_double"], PASS_TO_PASS=[])
    clean = doctored("clean")
    instance = replace(passing, image=clean.image, base_commit=clean.base_commit)
    [reason] = (await check(instance, opener(instance))).reasons
    assert reason == "null: the tests pass without any patch"


@pytest.mark.full
async def test_broken_infrastructure_is_no_result(
    doctored: Doctor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A host that is too slow to apply a patch raises an error, and the image gets no result."""
    monkeypatch.setattr(grading, "APPLY_TIMEOUT_S", 0.001)
    with pytest.raises(ImageError, match="applying the patch took too long"):
        await check(doctored("clean"), opener(doctored("clean")))


def test_the_key_changes_with_what_the_result_depends_on(make_instance: MakeInstance) -> None:
    """The key of a preflight depends on image, row and network."""
    key = preflight_key(make_instance(), "sha256:1", network=False)
    assert key == preflight_key(make_instance(), "sha256:1", network=False)
    others = {
        preflight_key(make_instance(), "sha256:2", network=False),
        preflight_key(make_instance(version="2"), "sha256:1", network=False),
        preflight_key(make_instance(), "sha256:1", network=True),
    }
    assert len(others - {key}) == 3
