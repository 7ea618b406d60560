"""Images of instances: list them, check for local copies, build the images of a task repo."""

import hashlib
import re
import shutil
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from eval import git, upstream
from eval.base_image import (
    BASE_DOCKERFILE,
    BASE_IMAGE,
    DIGEST_LABEL,
    LABEL,
    build_image,
    can_import_base,
    connect,
    ensure_base,
)
from eval.digests import canonical_digest
from eval.errors import ImageError
from eval.instances import task_repo
from eval.readers import harbor
from eval.types import Instance

REPOSITORY = "repository.bundle"
"""File of a task repo with the history of all its tasks, as a git bundle."""

PARALLEL_BUILDS = 2
"""A build is a short burst of disk and CPU on a single daemon. More builds at once gain nothing."""

_FROM = re.compile(r"^\s*FROM\s+(?:--\S+\s+)*(\S+)", re.IGNORECASE | re.MULTILINE)

_STAGE = re.compile(r"^\s*FROM\s.*\sAS\s+(\S+)", re.IGNORECASE | re.MULTILINE)


@dataclass(frozen=True)
class ImageStatus:
    """Local availability of the image of one instance."""

    instance_id: str
    image: str
    present: bool
    image_id: str | None
    """Id of the content (`sha256:…`), or None if the image is missing."""
    how: str
    """The command that pulls or builds the image."""


@dataclass(frozen=True)
class BuiltImage:
    """One image that is ready."""

    instance_id: str
    image: str
    action: Literal["built", "current"]
    """`current` for an image that was available locally, made from the same ingredients."""
    duration_s: float


def check(instances: Iterable[Instance], dataset: str, *, client: Any = None) -> list[ImageStatus]:
    """Check by one daemon request which images of a dataset's instances are available locally.

    Raises:
        ImageError: no Docker daemon answers.
    """
    local = local_images(client or connect())
    build = f"durabench images build --dataset {dataset}" if task_repo(dataset) else ""
    statuses = []
    for instance in instances:
        image_id, how = local.get(canonical(instance.image)), f"docker pull {instance.image}"
        statuses.append(
            ImageStatus(
                instance.instance_id, instance.image, image_id is not None, image_id, build or how
            )
        )
    return statuses


def build(
    instances: Sequence[Instance],
    repo: Path,
    cache: Path | None = None,
    *,
    client: Any = None,
) -> Iterator[BuiltImage]:
    """Build the images of a task repo's instances. Yield each image as it becomes ready.

    The build context is a copy of the task's folder. The history up to the base commit is added as
    `base.bundle`, if the package is bundled or the task repo has a `repository.bundle`. `cache` is
    for unpacked repositories. An image that carries
    the digest of the same ingredients is not rebuilt.

    Raises:
        ImageError: no daemon answers, or images cannot be built, after all others. The message
            has the last log lines of one.
    """
    client = client or connect()
    ensure_bases(instances, repo, client)
    with (
        tempfile.TemporaryDirectory(prefix="durabench-images-") as scratch,
        ThreadPoolExecutor(PARALLEL_BUILDS) as pool,
    ):
        unpacked = cache or Path(scratch) / "upstream"
        local = local_images(client)
        builds = {
            pool.submit(_build_one, client, instance, repo, unpacked, local): instance.instance_id
            for instance in instances
        }
        failed: dict[str, ImageError] = {}
        try:
            for finished in as_completed(builds):
                try:
                    yield finished.result()
                except ImageError as error:
                    failed[builds[finished]] = error
        finally:
            pool.shutdown(cancel_futures=True)
    for first in failed.values():
        if len(builds) == 1:
            raise first
        raise ImageError(
            f"{len(failed)} of {len(builds)} images cannot be built ({', '.join(failed)}), "
            f"the first because {first}"
        )


def ensure_bases(instances: Iterable[Instance], repo: Path, client: Any) -> None:
    """Make the base image available locally if the image of any instance is built on it.

    Raises:
        ImageError: the base image is missing and cannot be built.
    """
    dockerfiles = [_read_dockerfile(instance, repo) for instance in instances]
    if any(BASE_IMAGE in _FROM.findall(dockerfile) for dockerfile in dockerfiles):
        ensure_base(client)


def list_missing_bases(instances: Iterable[Instance], repo: Path, client: Any) -> list[list[str]]:
    """Return the images that the build of each instance needs from a registry.

    Raises:
        ImageError: a task has no readable Dockerfile, or no Docker daemon answers.
    """
    local = local_images(client)
    needs_base = canonical(BASE_IMAGE) not in local and not can_import_base()

    def find(text: str) -> list[str]:
        names = set(_FROM.findall(text))
        if BASE_IMAGE in names:
            of_base = _FROM.findall(BASE_DOCKERFILE.read_text(encoding="utf-8"))
            names = {*names, *(of_base if needs_base else ())} - {BASE_IMAGE}
        names -= {*_STAGE.findall(text), "scratch"}
        return sorted(name for name in names if "$" not in name and canonical(name) not in local)

    return [find(_read_dockerfile(instance, repo)) for instance in instances]


def _build_one(
    client: Any, instance: Instance, repo: Path, cache: Path, local: dict[str, str]
) -> BuiltImage:
    clock = time.perf_counter()
    folder, dockerfile = _folder(instance, repo), _read_dockerfile(instance, repo)
    # The ingredients are the task's files, the commit (which stands for the content of the bundle),
    # and the images that the image is built on.
    files = {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
    bases = [local.get(canonical(name), name) for name in _FROM.findall(dockerfile)]
    digest = canonical_digest([instance.repo, instance.base_commit, files, bases])
    if (image_id := local.get(canonical(instance.image))) is not None:
        labels = client.api.inspect_image(image_id)["Config"]["Labels"] or {}
        if labels.get(DIGEST_LABEL) == digest:
            return BuiltImage(instance.instance_id, instance.image, "current", 0.0)
    with tempfile.TemporaryDirectory(prefix="durabench-context-") as scratch:
        context = Path(scratch) / "context"
        shutil.copytree(folder, context) if folder.is_dir() else context.mkdir()
        (context / "Dockerfile").write_text(dockerfile, encoding="utf-8")
        if upstream.series(instance.repo) is not None:
            bundle = context / "base.bundle"
            upstream.bundle(instance.repo, instance.base_commit, bundle, cache)
        elif (whole := folder.parents[1] / REPOSITORY).is_file():
            git.pack(whole, instance.base_commit, context / "base.bundle")
        labels = {LABEL: "instance", DIGEST_LABEL: digest}
        build_image(client, context, instance.image, labels)
    duration_s = time.perf_counter() - clock
    return BuiltImage(instance.instance_id, instance.image, "built", duration_s)


def _folder(instance: Instance, repo: Path) -> Path:
    """Return the build context of an instance. A Harbor task with an image may have none."""
    if task := harbor.find_task(repo, instance.instance_id):
        return task / "environment"
    return repo / "tasks" / instance.instance_id


def _read_dockerfile(instance: Instance, repo: Path) -> str:
    if task := harbor.find_task(repo, instance.instance_id):
        return harbor.write_dockerfile(task)
    folder = _folder(instance, repo)
    try:
        return (folder / "Dockerfile").read_text(encoding="utf-8")
    except OSError as error:
        raise ImageError(f"{folder}: no readable Dockerfile: {error.strerror}") from error


def local_images(client: Any) -> dict[str, str]:
    """Return the image ids by every name that the daemon lists.

    This uses the low-level API, because `client.images.list()` makes one more request for each
    image.
    """
    names: dict[str, str] = {}
    for image in client.api.images():
        for name in (*(image["RepoTags"] or ()), *(image["RepoDigests"] or ())):
            names[name] = image["Id"]
    return names


def canonical(name: str) -> str:
    """Return an image name as the daemon lists it: no default registry, always a tag or digest."""
    name = name.removeprefix("docker.io/").removeprefix("library/")
    return name if ":" in name.rsplit("/", 1)[-1] else f"{name}:latest"
