"""Jobs on published projects: the project's own tests decide, as detected from its files."""

import json
import shlex
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from docker import DockerClient

from agent.project import Folder, Project, detect
from eval import job_images
from flows.display.errors import GateFailed
from flows.jobs.job import job
from flows.storage.images import CACHE_VARIABLE
from flows.storage.lake import Lake, Row
from tests.flows.jobs import published
from tests.flows.jobs.conftest import request

pytestmark = [
    pytest.mark.usefixtures("prefect"),
    pytest.mark.docker,
    pytest.mark.slow,
    pytest.mark.full,
    pytest.mark.timeout(1200),
]


@dataclass(frozen=True)
class Published:
    """A project, with a right and a wrong change of one of its files."""

    name: str
    repository: Callable[[], Path]
    kind: str
    tests: str
    """The command that is detected."""
    file: str
    old: str
    right: str
    wrong: str
    verify: str = "auto"
    least: int = 0
    """Tests that pass at least; 0 if only the exit code is known."""

    def __str__(self) -> str:
        return self.name

    def change(self, new: str) -> str:
        """Return the command that makes a change."""
        code = (
            f"import pathlib; p = pathlib.Path({self.file!r}); t = p.read_text(); "
            f"assert t.count({self.old!r}) == 1; p.write_text(t.replace({self.old!r}, {new!r}))"
        )
        return f"python3 -c {shlex.quote(code)}"


PYTEST = "python -m pytest -q -rfE -p no:cacheprovider"

PROJECTS = [
    Published(
        "requests",
        lambda: published.from_pypi("requests==2.32.3"),
        "python",
        PYTEST,
        "src/requests/structures.py",
        "self._store[key.lower()] = (key, value)",
        "self._store[key.lower()] = (str(key), value)",
        "self._store[key] = (key, value)",
        verify="python -m pytest -q tests/test_structures.py tests/test_utils.py",
        least=150,
    ),
    Published(
        "flask",
        lambda: published.from_pypi("flask==3.1.1"),
        "python",
        PYTEST,
        "src/flask/sansio/blueprints.py",
        """if "." in name:""",
        """if name.count("."):""",
        """if "/" in name:""",
        least=400,
    ),
    Published(
        "sympy",
        lambda: published.from_pypi("sympy==1.13.3"),
        "python",
        PYTEST,
        "sympy/physics/units/prefixes.py",
        "fact = self.scale_factor * other.scale_factor",
        "fact = other.scale_factor * self.scale_factor",
        "fact = self.scale_factor / other.scale_factor",
        verify="python -m pytest -q sympy/physics/units/tests/test_prefixes.py",
        least=4,
    ),
    Published(
        "mux",
        lambda: published.from_debian(
            "golang-github-gorilla-mux-dev", "usr/share/gocode/src/github.com/gorilla/mux"
        ),
        "go",
        "go test -json ./...",
        "middleware.go",
        "if v == http.MethodOptions {",
        "if http.MethodOptions == v {",
        "if v != http.MethodOptions {",
        least=100,
    ),
    Published(
        "flat",
        lambda: published.from_npm("flat@5.0.2"),
        "node",
        "npm test",
        "index.js",
        "const delimiter = opts.delimiter || '.'\n  const maxDepth",
        "const delimiter = opts.delimiter ? opts.delimiter : '.'\n  const maxDepth",
        "const delimiter = opts.delimiter || ','\n  const maxDepth",
    ),
]


@contextmanager
def ready(project: Published, client: DockerClient) -> Iterator[tuple[Path, dict[str, Any]]]:
    """Yield a project's repository, and the settings of a job on it.

    Go works on the host. The official images of the others are replaced by ones that need no
    registry.
    """
    repository = project.repository()
    found = detected(repository)
    assert found.install is not None
    with pytest.MonkeyPatch.context() as patch:
        match project.kind:
            case "go":
                if shutil.which("go") is None:
                    pytest.skip("this machine has no Go")
                made: Any = nullcontext("")
            case "node":
                made = published.node_image(client, repository, found.install)
            case _:
                made = published.python_image(client, repository, found.install)
        with made as image:
            patch.setitem(job_images.BY_KIND, project.kind, image)
            yield repository, {"environment": "docker" if image else "host"}


def detected(repository: Path) -> Project:
    """Return the project that is detected in a repository."""
    found = detect(Folder(repository))
    assert found is not None
    return found


@pytest.mark.parametrize("project", PROJECTS, ids=str)
async def test_a_published_project_decides_about_patches(
    project: Published,
    docker_client: DockerClient,
    tmp_path: Path,
    lake_path: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its own tests are found and run. They verify a right change, and not one that breaks it."""
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))
    with ready(project, docker_client) as (repository, settings):
        found = detected(repository)
        assert found.tests is not None
        assert (found.kind, found.tests.command) == (project.kind, project.tests)
        settings |= {"source": str(repository), "publish": "patch", "verify": project.verify}
        right = request(project.change(project.right), task="Tidy it.", **settings)
        wrong = request(project.change(project.wrong), task="Break it.", **settings)
        try:
            await job(right, lake_path)
            [done] = Lake.existing(lake_path).all_shared("jobs")
            assert done["verdict"] == "verified", done["reason"]
            with pytest.raises(GateFailed, match="breaks tests"):
                await job(wrong, lake_path)
        finally:
            remove_images(docker_client, lake_path)
    rows = {row["title"]: row for row in Lake.existing(lake_path).all_shared("jobs")}
    good, bad = rows["Tidy it."], rows["Break it."]
    assert (good["verdict"], bad["verdict"]) == ("verified", "regressed"), good["reason"]
    before = json.loads(good["verification"])["before"]
    assert (before["exit_code"], before["failed"], before["problem"]) == (0, [], "")
    assert len(before["passed"]) >= project.least


def remove_images(client: DockerClient, lake_path: str) -> None:
    """Remove the images of all jobs of a lake."""
    rows: list[Row] = Lake.existing(lake_path).all_shared("jobs")
    for image in {row["image"] for row in rows if row["image"]}:
        client.images.remove(image, force=True)
