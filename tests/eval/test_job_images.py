"""Images of repositories: the choice of the base, and real builds."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from eval import git, job_images
from eval.base_image import BASE_IMAGE
from eval.errors import DatasetError
from eval.job_images import Recipe
from tests.agent.repositories import with_files


class Files:
    """Files of a commit, given as texts."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        self.paths = frozenset(texts)
        self._texts = texts

    def text(self, path: str) -> str:
        return self._texts.get(path, "")


DEVCONTAINER = """{
  // https://example.invalid/schema
  "build": {"dockerfile": "../docker/Dockerfile", "context": ".."},
  "postCreateCommand": "make deps", /* once */
}"""


@pytest.mark.parametrize(
    ("texts", "named", "expected"),
    [
        ({"Dockerfile": ""}, "mine", Recipe(base="mine")),
        ({"Dockerfile": ""}, None, Recipe(dockerfile="Dockerfile")),
        ({}, None, Recipe(base="node:22-bookworm", install="npm ci")),
        (
            {".devcontainer/devcontainer.json": DEVCONTAINER, "Dockerfile": ""},
            None,
            Recipe(dockerfile="docker/Dockerfile", install="make deps"),
        ),
        ({".devcontainer.json": '{"image": "theirs"}'}, None, Recipe(base="theirs")),
        (
            {".devcontainer.json": '{"image": "a", "postCreateCommand": ["npm", "i", "a b"]}'},
            None,
            Recipe(base="a", install="npm i 'a b'"),
        ),
        (
            {
                ".devcontainer.json": '{"image": "a", '
                '"postCreateCommand": {"one": "make a || true", "two": ["make", "b"]}}'
            },
            None,
            Recipe(base="a", install="{ make a || true; } && { make b; }"),
        ),
    ],
)
def test_the_first_known_base_is_used(
    texts: Mapping[str, str], named: str | None, expected: Recipe
) -> None:
    """A named image, then a devcontainer, then a Dockerfile, then one by kind."""
    assert job_images.recipe(Files(texts), "node", "npm ci", named) == expected


@pytest.mark.parametrize(
    "texts",
    [
        {},
        {".devcontainer.json": "nonsense"},
        {".devcontainer.json": '{"build": {"dockerfile": "../../etc/Dockerfile"}}'},
    ],
)
def test_an_unknown_base_is_one_line(texts: Mapping[str, str]) -> None:
    """Nothing is guessed, and nothing outside the repository is read."""
    with pytest.raises(DatasetError):
        job_images.recipe(Files(texts), None, None, None)


@pytest.mark.docker
@pytest.mark.slow
def test_an_image_has_the_repository_and_what_was_installed_once(
    tmp_path: Path, docker_client: Any
) -> None:
    """The own Dockerfile is the base, /testbed is at the commit without a remote, and a second
    call builds nothing. Programs on the image's PATH are found while it is built. Git sees
    nothing of what they did in the repository."""
    dockerfile = f"FROM {BASE_IMAGE}\nCOPY marker /marker\nCOPY tool /opt/own/tool\n"
    path = "RUN chmod 755 /opt/own/tool\nENV PATH=/opt/own:$PATH\n"
    tool = "#!/bin/sh\nprintf '%s\\n' again >/installed\nmkdir made\ntouch made/file 'a [b]*'\n"
    tool += "echo more >>marker\n"
    files = {"Dockerfile": f"{dockerfile}{path}", "marker": "own", "tool": tool}
    with_files(files)(tmp_path / "repo")
    git.git(tmp_path / "repo", "config", "uploadpack.allowAnySHA1InWant", "true")
    commit = git.git(tmp_path / "repo", "rev-parse", "HEAD")
    made_by = Recipe(dockerfile="Dockerfile", install="tool")
    name = job_images.name_of(commit, made_by)
    try:
        made = job_images.ensure(docker_client, tmp_path / "repo", commit, made_by)
        assert job_images.ensure(docker_client, tmp_path / "none", commit, made_by) == made
        script = "cat /marker /installed; git remote; git rev-parse HEAD; touch c; git status -s"
        shown = docker_client.containers.run(made, ["bash", "-c", script], remove=True)
        assert shown.decode().splitlines() == ["ownagain", commit, "?? c"]
    finally:
        for each in (name, f"{name}-own"):
            docker_client.images.remove(each, force=True)
