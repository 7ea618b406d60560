"""Images of repositories: a base, the repository in /testbed, and its dependencies installed.

The base is named by the user, built from the repository's own Dockerfile or devcontainer, or
chosen by the kind of the project. An image is built once for its ingredients.
"""

import json
import re
import shlex
import tempfile
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from eval import git
from eval.base_image import DIGEST_LABEL, LABEL, build_image
from eval.digests import canonical_digest
from eval.errors import DatasetError, ImageError
from eval.images import canonical, local_images
from eval.repositories import CommitFiles

BY_KIND = {
    "python": "python:3.12-bookworm",
    "node": "node:22-bookworm",
    "go": "golang:1.25-bookworm",
    "rust": "rust:1-bookworm",
    "make": "buildpack-deps:bookworm",
}
"""Images with the tools of each kind of project, and git."""

_DEVCONTAINERS = (".devcontainer/devcontainer.json", ".devcontainer.json")
_IMAGE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/:@-]{0,500}")
_IGNORED = ".dockerignore"
_LARGEST_TREE = 16 * 2**30
"""Bytes of the files of one commit."""

_COMMENT = re.compile(r'("(?:[^"\\]|\\.)*")|//[^\n]*|/\*.*?\*/', re.DOTALL)
_TRAILING_COMMA = re.compile(r",(\s*[}\]])")

_DOCKERFILE = """\
FROM {base}
USER root
WORKDIR /
SHELL ["/bin/sh", "-c"]
RUN {{ command -v git && command -v bash && command -v setsid; }} >/dev/null \\
    || {{ apt-get update && apt-get install -y --no-install-recommends git bash util-linux; }} \\
    || apk add --no-cache git bash coreutils util-linux
COPY base.bundle /tmp/base.bundle
RUN git config --system --add safe.directory '*' \\
    && git config --system user.name {name} && git config --system user.email {email} \\
    && rm -rf /testbed && git clone --quiet --branch main --template= /tmp/base.bundle /testbed \\
    && git -C /testbed remote remove origin && rm /tmp/base.bundle
WORKDIR /testbed
"""


_INSTALL = """\
exec bash -lc '
IFS=:; for folder in $PATH; do [[ :$1: == *":$folder:"* ]] || added+=$folder:; done; unset IFS
PATH=$added$1; eval "$2"' bash "$PATH" "$1"
"""
"""Runs a command in a login shell. There PATH starts with the additions of the profile,
followed by PATH of the image. Debian's profile resets it, and images of Go and Rust add folders.
"""

_HIDE_INSTALLATION = r"""
RUN cd /testbed && git reset --quiet --hard && mkdir -p .git/info \
    && git ls-files --others --exclude-standard --directory -z | tr '\0' '\n' \
    | sed 's|[][\\*?]|\\&|g; s|^|/|' >>.git/info/exclude
"""
"""Keeps the traces of the installation out of patches: changed files are restored, and new ones,
such as `node_modules` without a .gitignore, are ignored."""

_LATER = """\
FROM {base}
COPY later.bundle /tmp/later.bundle
RUN git -C /testbed bundle unbundle /tmp/later.bundle >/dev/null \\
    && git -C /testbed reset --quiet --hard {commit} && rm /tmp/later.bundle
"""


@dataclass(frozen=True)
class ImageRecipe:
    """The base of an image, and the command that installs what the tests need."""

    base: str = ""
    """An image; '' if it is built from `dockerfile`."""
    dockerfile: str = ""
    """Path of the repository's own Dockerfile; '' if it is not used."""
    context: str = "."
    """The folder that is the context of that Dockerfile."""
    install: str | None = None
    since: str = ""
    """The commit that `base` has in /testbed already, with everything installed; '' for none."""


def recipe(
    files: CommitFiles, kind: str | None, install: str | None, name: str | None
) -> ImageRecipe:
    """Return the recipe of a repository's image.

    A named image or one of the repository's own has its dependencies already, so `install` is only
    run in an image that the kind chose.

    Raises:
        DatasetError: no image is named, and the files show none.
    """
    if name:
        return ImageRecipe(base=_image_name(name, "--image"))
    if devcontainer := _devcontainer(files):
        return devcontainer
    if "Dockerfile" in files.paths:
        return ImageRecipe(dockerfile="Dockerfile")
    if kind is None:
        raise DatasetError(
            "the repository declares no image: name one with --image, add a Dockerfile, or "
            "work on this machine with -e host"
        )
    return ImageRecipe(base=BY_KIND[kind], install=install)


def _devcontainer(files: CommitFiles) -> ImageRecipe | None:
    path = next((name for name in _DEVCONTAINERS if name in files.paths), None)
    if path is None:
        return None
    text = _COMMENT.sub(lambda match: match[1] or "", files.text(path))
    try:
        declared = json.loads(_TRAILING_COMMA.sub(r"\1", text))
    except (ValueError, RecursionError):
        declared = None
    if not isinstance(declared, dict):
        raise DatasetError(f"{path} is not a JSON object: name an image with --image")
    install = _commands(declared.get("postCreateCommand"))
    if isinstance(declared.get("image"), str):
        return ImageRecipe(base=_image_name(declared["image"], path), install=install)
    build = declared.get("build")
    build = build if isinstance(build, dict) else {}
    dockerfile = build.get("dockerfile") or declared.get("dockerFile")
    if not isinstance(dockerfile, str):
        return None
    folder = PurePosixPath(path).parent
    context = _inside(folder / str(build.get("context", ".")))
    return ImageRecipe(dockerfile=_inside(folder / dockerfile), context=context, install=install)


def _image_name(text: str, where: str) -> str:
    """Return the name of an image, checked, as it becomes part of a Dockerfile."""
    if not _IMAGE_NAME.fullmatch(text):
        raise DatasetError(f"{where} is not the name of an image: {text[:100]!r}")
    return text


def _commands(declared: Any) -> str | None:
    """Return a command of a devcontainer for a shell; None if it has none.

    It is a line for a shell, the words of one command, or several of both by name.
    """
    match declared:
        case str():
            return declared or None
        case [*words] if words and all(isinstance(word, str) for word in words):
            return shlex.join(words)
        case dict():
            commands = filter(None, map(_commands, declared.values()))
            return " && ".join(f"{{ {command}; }}" for command in commands) or None
        case _:
            return None


def _inside(path: PurePosixPath) -> str:
    """Return a path without `..`, relative to the repository."""
    parts: list[str] = []
    for part in path.parts:
        if part != "..":
            parts.append(part)
        elif parts:
            parts.pop()
        else:
            raise DatasetError(f"the devcontainer names {path}, outside the repository")
    return "/".join(parts) or "."


def name_of(commit: str, made_by: ImageRecipe) -> str:
    """Return the name of the image of a commit."""
    parts = [commit, made_by.base, made_by.dockerfile, made_by.context, made_by.install]
    template = _LATER if made_by.since else _DOCKERFILE
    steps = [template, *([_HIDE_INSTALLATION] if made_by.install else [])]
    return f"durabench/job:{canonical_digest([*steps, *parts])[:24]}"


def ensure(client: Any, mirror: Path, commit: str, made_by: ImageRecipe) -> str:
    """Build the image of a commit unless it is available locally. Return its content id.

    Raises:
        ImageError: the image cannot be built. The message has the last lines of the log.
    """
    name = name_of(commit, made_by)
    image_id = local_images(client).get(canonical(name))
    if image_id is None:
        _check_size(mirror, commit)
        with tempfile.TemporaryDirectory(prefix="durabench-job-image-") as folder:
            context = Path(folder) / "context"
            context.mkdir()
            if made_by.since:
                git.pack_since(mirror, commit, made_by.since, context / "later.bundle")
                text = _LATER.format(base=made_by.base, commit=commit)
            else:
                git.pack(mirror, commit, context / "base.bundle")
                base = made_by.base or _build_declared(
                    client, mirror, commit, made_by, Path(folder) / "own"
                )
                text = write_dockerfile(base, made_by.install)
            (context / "Dockerfile").write_text(text, encoding="utf-8")
            labels = {LABEL: "job", DIGEST_LABEL: name.rpartition(":")[2]}
            build_image(client, context, name, labels, is_foreign=True)
        image_id = local_images(client).get(canonical(name))
    if image_id is None:
        raise ImageError(f"the image {name} was built, and another program removed it at once")
    return image_id


def write_dockerfile(base: str, install: str | None) -> str:
    """Return the Dockerfile of a commit, whose history is `base.bundle` in the context."""
    text = _DOCKERFILE.format(base=base, name=git.NAME, email=git.EMAIL)
    if install:
        words = ["bash", "-c", _INSTALL, "bash", install]
        text += f"RUN {json.dumps(words)}\n{_HIDE_INSTALLATION}"
    return text


def own_image(commit: str, made_by: ImageRecipe) -> str:
    """Return the name of the image of the repository's own Dockerfile."""
    return f"{name_of(commit, made_by)}-own"


def _check_size(mirror: Path, commit: str) -> None:
    """Check that the files of a commit fit on this machine. A small pack can hold many."""
    entries = git.git(mirror, "ls-tree", "-r", "--long", "-z", commit).split("\0")
    sizes = (entry.partition("\t")[0].rpartition(" ")[2] for entry in entries)
    size = sum(int(text) for text in sizes if text.isdigit())
    if size > _LARGEST_TREE:
        raise ImageError(
            f"the files of the repository have {size / 2**30:.0f} GB: more than "
            f"{_LARGEST_TREE // 2**30} are not built into an image"
        )


def _build_declared(
    client: Any, mirror: Path, commit: str, made_by: ImageRecipe, folder: Path
) -> str:
    """Build the image of the repository's own Dockerfile. Return its name."""
    git.export(mirror, commit, folder)
    dockerfile = _resolve(folder, made_by.dockerfile)
    context = _resolve(folder, made_by.context)
    if dockerfile is None or not dockerfile.is_file():
        raise ImageError(f"the repository has no {made_by.dockerfile}: name an image with --image")
    if context is None or not context.is_dir():
        raise ImageError(
            f"the repository has no folder {made_by.context} to build from: name an image with "
            "--image"
        )
    if (context / _IGNORED).is_symlink():  # Docker's client would read what it leads to
        raise ImageError(f"{_IGNORED} of the repository is a link: name an image with --image")
    name = own_image(commit, made_by)
    if dockerfile.is_relative_to(context):
        dockerfile = dockerfile.relative_to(context)
    build_image(client, context, name, {LABEL: "job"}, dockerfile=str(dockerfile), is_foreign=True)
    return name


def _resolve(folder: Path, path: str) -> Path | None:
    """Return where a path of a repository leads, with all links followed; None if outside."""
    try:
        target = (folder / path).resolve(strict=True)
    except (OSError, RuntimeError, ValueError):
        return None
    return target if target.is_relative_to(folder.resolve()) else None
