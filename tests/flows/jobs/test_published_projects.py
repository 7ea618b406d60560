"""A job on a published project: the project's own tests decide, as detected from its files."""

import json
import shlex
from pathlib import Path

import pytest
from docker import DockerClient

from agent.project import Folder, detect
from flows.display.errors import GateFailed
from flows.jobs.job import job
from flows.storage.images import CACHE_VARIABLE
from flows.storage.lake import Lake
from tests.flows.jobs.conftest import request
from tests.real_instances.images import SOURCES, instance_of
from tests.unfit_images import layered

pytestmark = [
    pytest.mark.usefixtures("prefect"),
    pytest.mark.docker,
    pytest.mark.slow,
    pytest.mark.full,
    pytest.mark.timeout(1200),
]

FILE = "src/flask/blueprints.py"
OLD, RIGHT, WRONG = 'if "." in name:', 'if name.count("."):', 'if "/" in name:'
TESTS = "python -m pytest -q tests/test_blueprints.py"


def change(new: str) -> str:
    """Return the command that makes a change."""
    code = (
        f"import pathlib; p = pathlib.Path({FILE!r}); t = p.read_text(); "
        f"assert t.count({OLD!r}) == 1; p.write_text(t.replace({OLD!r}, {new!r}))"
    )
    return f"python3 -c {shlex.quote(code)}"


async def test_a_published_project_decides_about_patches(
    docker_client: DockerClient,
    shared_data: Path,
    tmp_path: Path,
    lake_path: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Flask's own tests are detected. They verify a right change, and not a wrong one."""
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))
    with (
        instance_of(SOURCES[0], shared_data, tmp_path, docker_client) as instance,
        layered(instance.image, "WORKDIR /", docker_client) as image,
    ):
        repository = tmp_path / "context" / "testbed"
        project = detect(Folder(repository))
        assert project is not None
        assert project.tests is not None
        assert project.tests.command == "python -m pytest -q -rfE -p no:cacheprovider"
        settings = {
            "source": str(repository),
            "verify": TESTS,
            "publish": "patch",
            "environment": "docker",
            "image": image,
        }
        try:
            await job(request(change(RIGHT), task="Tidy it.", **settings), lake_path)
            with pytest.raises(GateFailed, match="breaks tests"):
                await job(request(change(WRONG), task="Break it.", **settings), lake_path)
        finally:
            rows = {row["title"]: row for row in Lake.existing(lake_path).all_shared("jobs")}
            for name in {row["image"] for row in rows.values()}:
                docker_client.images.remove(name, force=True)
    right, wrong = rows["Tidy it."], rows["Break it."]
    assert (right["verdict"], wrong["verdict"]) == ("nothing_broke", "regressed"), right["reason"]
    before = json.loads(right["verification"])["before"]
    assert (before["exit_code"], before["problem"]) == (0, "")
