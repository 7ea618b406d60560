"""The base image of the bundled tasks: Debian with Python, pytest, git and patch.

There are three ways to get it, in this order: use the local image, build its Dockerfile if a
registry is reachable, or create it from packages as root on a Debian machine.
"""

import os
import re
import shutil
import subprocess
import tempfile
from collections import deque
from contextlib import suppress
from pathlib import Path
from time import monotonic
from typing import Any

from eval.errors import ImageError

BASE_IMAGE = "durabench/base:bookworm"

LABEL = "durabench"
"""Label on every image and container of Durabench, so that they can be found."""

DIGEST_LABEL = "durabench.digest"
"""Label on images: the digest of their ingredients."""

_BASE_CONTEXT = Path(__file__).parent / "tasks" / "base"
BASE_DOCKERFILE = _BASE_CONTEXT / "Dockerfile"
_PACKAGES = "python3,python3-pytest,python-is-python3,git,patch,ca-certificates"
_CONTAINER_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_LOG_LINES = 15
_DAEMON_TIMEOUT_S = 600
_DEBOOTSTRAP_TIMEOUT_S = 900

_BUILD_TIMEOUT_S = 3600
_BUILD_PIDS = 4096
_BUILD_LIMITS = {"memory": 8 * 2**30, "memswap": 8 * 2**30}
"""Limits of a step of a build, bytes."""

_STEP = re.compile(r"---> Running in ([0-9a-f]{12,64})")
"""The daemon's message when it starts the container of a step."""


def connect() -> Any:
    """Return a client of the Docker daemon that the environment names.

    Raises:
        ImageError: no daemon answers.
    """
    import docker  # takes 0.2 s, and host workspaces do not need it

    try:
        return docker.from_env(timeout=_DAEMON_TIMEOUT_S)
    except docker.errors.DockerException as error:
        message = f"no Docker daemon answers: start one or set DOCKER_HOST ({error})"
        raise ImageError(message) from error


def ensure_base(client: Any) -> None:
    """Make the base image available locally, by the first of the three ways that works.

    Raises:
        ImageError: none of them works. The message lists the remedies.
    """
    if client.api.images(name=BASE_IMAGE):
        return
    try:
        build_image(client, _BASE_CONTEXT, BASE_IMAGE, {LABEL: "base"})
        return
    except ImageError as error:
        without_registry = error
    if can_import_base():
        _import_debian(client, BASE_IMAGE)
        return
    raise ImageError(
        f"the image {BASE_IMAGE} is missing. Do one of these: load it with `docker load`; give the "
        "daemon access to a registry, so that it can be built; or, on Debian or Ubuntu, "
        "install debootstrap and run this as root. "
        f"The build failed with: {str(without_registry).splitlines()[-1]}"
    )


def can_import_base() -> bool:
    """Return True if this machine can make the base image without a registry."""
    return os.geteuid() == 0 and shutil.which("debootstrap") is not None


def build_image(
    client: Any,
    context: Path,
    name: str,
    labels: dict[str, str],
    *,
    dockerfile: str = "Dockerfile",
    is_foreign: bool = False,
) -> None:
    """Build one image from a folder that has a Dockerfile, or from another Dockerfile.

    The build uses the daemon's API, which every Docker has. Not every Docker has buildx. The steps
    of a foreign build have limits on memory and processes, and the build has one on its time.

    Raises:
        ImageError: the build failed, or took too long. The message has the last lines of the log.
    """
    import docker
    import requests
    import urllib3

    lines: deque[str] = deque(maxlen=_LOG_LINES)
    end = monotonic() + (_BUILD_TIMEOUT_S if is_foreign else float("inf"))
    try:
        events = client.api.build(
            path=str(context),
            tag=name,
            labels=labels,
            rm=True,
            forcerm=True,
            decode=True,
            dockerfile=dockerfile,
            timeout=_BUILD_TIMEOUT_S if is_foreign else None,
            container_limits=_BUILD_LIMITS if is_foreign else None,
        )
        for event in events:
            output = str(event.get("stream", ""))
            lines.extend(output.splitlines())
            if "error" in event:
                raise ImageError(_describe_failure(name, [*lines, event["error"]]))
            if is_foreign and (step := _STEP.fullmatch(output.strip())):
                # The API of builds has no such limit.
                with suppress(docker.errors.APIError):  # a step that has ended needs none
                    url = client.api._url("/containers/{0}/update", step[1])
                    response = client.api._post_json(url, data={"PidsLimit": _BUILD_PIDS})
                    client.api._raise_for_status(response)
            if monotonic() > end:
                raise TimeoutError
    except (requests.RequestException, urllib3.exceptions.HTTPError, TimeoutError) as error:
        if monotonic() < end:
            raise ImageError(_describe_failure(name, [*lines, str(error)])) from error
        late = f"the build took longer than {_BUILD_TIMEOUT_S / 60:.0f} minutes"
        raise ImageError(_describe_failure(name, [*lines, late])) from None
    except (docker.errors.DockerException, OSError, TypeError) as error:
        raise ImageError(_describe_failure(name, [*lines, str(error)])) from error


def _import_debian(client: Any, name: str) -> None:
    """Create the image from Debian packages, without a registry."""
    with tempfile.TemporaryDirectory(prefix="durabench-base-") as scratch:
        root, archive = Path(scratch) / "root", Path(scratch) / "root.tar"
        include = f"--include={_PACKAGES}"
        _run(["debootstrap", "--variant=minbase", include, "bookworm", str(root)], name)
        for downloaded in ("var/cache/apt", "var/lib/apt/lists"):
            shutil.rmtree(root / downloaded)
        _run(["tar", "-C", str(root), "-cf", str(archive), "."], name)
        repository, _, tag = name.partition(":")
        client.api.import_image_from_file(
            str(archive),
            repository=repository,
            tag=tag,
            changes=[f"ENV PATH={_CONTAINER_PATH}", f"LABEL {LABEL}=base"],
        )


def _run(command: list[str], name: str) -> None:
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=_DEBOOTSTRAP_TIMEOUT_S
        )
    except subprocess.TimeoutExpired as error:
        raise ImageError(_describe_failure(name, [str(error)])) from error
    if done.returncode != 0:
        raise ImageError(_describe_failure(name, (done.stdout + done.stderr).splitlines()))


def _describe_failure(name: str, log: list[str]) -> str:
    tail = "\n".join(line.rstrip() for line in log[-_LOG_LINES:] if line.strip())
    return f"the image {name} cannot be built:\n{tail}"
