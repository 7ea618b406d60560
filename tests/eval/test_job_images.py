"""Images of repositories: the choice of the base, and real builds."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from eval import base_image, git, job_images
from eval.base_image import BASE_IMAGE
from eval.errors import DatasetError, ImageError
from eval.job_images import ImageRecipe
from tests.agent.repositories import with_files
from tests.waiting import wait_until


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
        ({"Dockerfile": ""}, "mine", ImageRecipe(base="mine")),
        ({"Dockerfile": ""}, None, ImageRecipe(dockerfile="Dockerfile")),
        ({}, None, ImageRecipe(base="node:22-bookworm", install="npm ci")),
        (
            {".devcontainer/devcontainer.json": DEVCONTAINER, "Dockerfile": ""},
            None,
            ImageRecipe(dockerfile="docker/Dockerfile", install="make deps"),
        ),
        ({".devcontainer.json": '{"image": "theirs"}'}, None, ImageRecipe(base="theirs")),
        (
            {".devcontainer.json": '{"image": "a", "postCreateCommand": ["npm", "i", "a b"]}'},
            None,
            ImageRecipe(base="a", install="npm i 'a b'"),
        ),
        (
            {
                ".devcontainer.json": '{"image": "a", '
                '"postCreateCommand": {"one": "make a || true", "two": ["make", "b"]}}'
            },
            None,
            ImageRecipe(base="a", install="{ make a || true; } && { make b; }"),
        ),
    ],
)
def test_the_first_known_base_is_used(
    texts: Mapping[str, str], named: str | None, expected: ImageRecipe
) -> None:
    """A named image, then a devcontainer, then a Dockerfile, then one by kind."""
    assert job_images.recipe(Files(texts), "node", "npm ci", named) == expected


@pytest.mark.parametrize(
    "texts",
    [
        {},
        {".devcontainer.json": "nonsense"},
        {".devcontainer.json": '{"build": {"dockerfile": "../../etc/Dockerfile"}}'},
        {".devcontainer.json": '{"image": "a\\nCOPY . /"}'},
        {".devcontainer.json": '{"image": "--platform=x a"}'},
        {".devcontainer.json": '["a"]'},
        {".devcontainer.json": '{"build": "x"}'},
        {".devcontainer.json": "[" * 100_000},
    ],
)
def test_an_unknown_base_is_one_line(texts: Mapping[str, str]) -> None:
    """Nothing is guessed, and nothing outside the repository is read."""
    with pytest.raises(DatasetError):
        job_images.recipe(Files(texts), None, None, None)


def _commit(folder: Path, files: Mapping[str, str], links: Mapping[str, str]) -> str:
    """Make a repository with files and links. Return its commit."""
    with_files(files)(folder)
    for name, target in links.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).symlink_to(target)
    git.git(folder, "add", "-A")
    git.git(folder, "commit", "--quiet", "--allow-empty", "-m", "links")
    git.git(folder, "config", "uploadpack.allowAnySHA1InWant", "true")
    return git.git(folder, "rev-parse", "HEAD")


BUILD = f"FROM {BASE_IMAGE}\nCOPY . /copied\n"


@pytest.mark.docker
@pytest.mark.parametrize(
    ("links", "recipe"),
    [
        ({"ctx": "{victim}"}, ImageRecipe(dockerfile="Dockerfile", context="ctx")),
        ({"a": "b", "b": "{victim}"}, ImageRecipe(dockerfile="Dockerfile", context="a")),
        ({"up": "../.."}, ImageRecipe(dockerfile="Dockerfile", context="up/..")),
        ({"up": "{victim}"}, ImageRecipe(dockerfile="Dockerfile", context="up/inner")),
        ({"loop": "loop"}, ImageRecipe(dockerfile="Dockerfile", context="loop")),
        ({"file": "{victim}/Dockerfile"}, ImageRecipe(dockerfile="file")),
        ({".dockerignore": "/dev/zero"}, ImageRecipe(dockerfile="Dockerfile")),
        ({"sub/.dockerignore": "/dev/zero"}, ImageRecipe(dockerfile="Dockerfile", context="sub")),
    ],
)
def test_no_link_leads_out_of_a_repository(
    tmp_path: Path, docker_client: Any, links: dict[str, str], recipe: ImageRecipe
) -> None:
    """Files of this machine are neither sent to a build nor read for it."""
    victim = tmp_path / "victim"
    (victim / "inner").mkdir(parents=True)
    (victim / "Dockerfile").write_text(BUILD)
    links = {name: target.format(victim=victim) for name, target in links.items()}
    commit = _commit(tmp_path / "repo", {"Dockerfile": BUILD}, links)
    with pytest.raises(ImageError, match="name an image with --image"):
        job_images.ensure(docker_client, tmp_path / "repo", commit, recipe)


def _command(container: Any) -> str:
    return " ".join(container.attrs["Config"]["Cmd"] or ())


@pytest.mark.full
@pytest.mark.docker
@pytest.mark.slow
def test_a_build_of_others_has_limits(
    tmp_path: Path, docker_client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On its memory, its processes and its time. The image of a link inside is built."""
    forks = "RUN sleep 1; for i in $(seq 60); do sleep 9 & done"
    dockerfile = f"FROM {BASE_IMAGE}\n{forks}\n# {tmp_path}\n"
    files = {"real/Dockerfile": dockerfile}
    commit = _commit(tmp_path / "repo", files, {"linked": "real"})
    monkeypatch.setattr(base_image, "_BUILD_PIDS", 20)
    made_by = ImageRecipe(dockerfile="linked/Dockerfile", context="linked")
    with pytest.raises(ImageError) as raised:
        job_images.ensure(docker_client, tmp_path / "repo", commit, made_by)
    assert "annot fork" in str(raised.value)
    limits = "RUN cat /sys/fs/cgroup/memory/memory.limit_in_bytes /sys/fs/cgroup/memory.max"
    dockerfile = f"FROM {BASE_IMAGE}\n{limits} 2>/dev/null; sleep 66\n"
    slow = _commit(tmp_path / "slow", {"Dockerfile": dockerfile}, {})
    monkeypatch.setattr(base_image, "_BUILD_TIMEOUT_S", 3)
    with pytest.raises(ImageError, match=f"(?s){8 * 2**30}.*took longer"):
        job_images.ensure(
            docker_client, tmp_path / "slow", slow, ImageRecipe(dockerfile="Dockerfile")
        )
    wait_until(
        lambda: (
            not any(
                "sleep 66" in _command(each)
                for each in docker_client.containers.list(ignore_removed=True)
            )
        )
    )


@pytest.mark.docker
@pytest.mark.slow
def test_an_image_has_the_repository_and_what_was_installed_once(
    tmp_path: Path, docker_client: Any
) -> None:
    """The own Dockerfile is the base, /testbed is at the commit without a remote, and a second
    call builds nothing. Programs on the image's PATH are found while it is built. Git sees
    none of their changes in the repository. The base may work in /testbed, too."""
    dockerfile = f"FROM {BASE_IMAGE}\nCOPY marker /marker\nCOPY tool /opt/own/tool\n"
    path = "RUN chmod 755 /opt/own/tool\nENV PATH=/opt/own:$PATH\nWORKDIR /testbed\n"
    tool = "#!/bin/sh\nprintf '%s\\n' again >/installed\nmkdir made\ntouch made/file 'a [b]*'\n"
    tool += "echo more >>marker\n"
    files = {"Dockerfile": f"{dockerfile}{path}", "marker": "own", "tool": tool}
    with_files(files)(tmp_path / "repo")
    git.git(tmp_path / "repo", "config", "uploadpack.allowAnySHA1InWant", "true")
    commit = git.git(tmp_path / "repo", "rev-parse", "HEAD")
    made_by = ImageRecipe(dockerfile="Dockerfile", install="tool")
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
