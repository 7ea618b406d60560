"""Images of real SWE-bench instances, made of source distributions and wheels.

No registry is needed for them. Each has the release of the
repository that is next to the row's base commit, and to which both patches of the row apply. Base
commit and image of the row are replaced. Everything else of it is as published.
"""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from docker import DockerClient

from eval.base_image import BASE_IMAGE, LABEL, build_image, ensure_base
from eval.readers.swebench import parse
from eval.types import Instance
from tests.agent.repositories import IDENTITY
from tests.agent.runners.running import BIN_TEST
from tests.archives import pip, source_distribution

DEBIAN_PYTHON = "3.11"
"""The Python of the base image."""

GENERATED = "*.egg-info\n_version.py\n*.pyc\n"
"""Files of a source distribution that are not in the repository, and that git ignores there."""

DOCKERFILE = f"""\
FROM {BASE_IMAGE}
COPY . /
RUN bash /make.sh
WORKDIR /testbed
"""

MAKE = """\
set -e
folder=$(python -c 'import site; print(site.getsitepackages()[0])')
printf '%s\\n' {path} /opt/site >"$folder/testbed.pth"
printf '#!/bin/sh\\nexec python -m pytest "$@"\\n' >/usr/local/bin/pytest
mkdir -p /opt/miniconda3/bin
echo 'conda() {{ :; }}' >/opt/miniconda3/bin/activate
chmod 755 /usr/local/bin/pytest
"""


@dataclass(frozen=True)
class Source:
    """The ingredients of the image of one row."""

    instance_id: str
    release: str
    """The source distribution."""
    packages: tuple[str, ...]
    """Packages that the repository and its tests need."""
    folder: str = ""
    """The folder of the repository that is importable."""

    def __str__(self) -> str:
        return self.instance_id


SOURCES = (
    Source(
        "pallets__flask-5014",
        "Flask==2.2.3",
        ("werkzeug==2.2.3", "jinja2<3.2", "itsdangerous<2.2", "click<8.2", "blinker<1.7"),
        folder="src",
    ),
    Source("sympy__sympy-24909", "sympy==1.12", ("mpmath==1.3.0",)),
    Source("django__django-16595", "Django==4.2", ("asgiref<4", "sqlparse<0.5")),
)


@contextmanager
def instance_of(
    source: Source, data: Path, folder: Path, client: DockerClient
) -> Iterator[Instance]:
    """Build the image of a row. The row, for that image."""
    row = row_of(source.instance_id, data)
    context = folder / "context"
    (context / "opt").mkdir(parents=True)
    commit = repository(source, row, folder, context / "testbed")
    where = ("--target", context / "opt" / "site", "--python-version", DEBIAN_PYTHON)
    pip(sys.executable, "install", *where, "--only-binary", ":all:", *source.packages)
    (context / "make.sh").write_text(MAKE.format(path=Path("/testbed") / source.folder))
    (context / "Dockerfile").write_text(DOCKERFILE)
    image = f"durabench-test/{source.instance_id}:latest"
    ensure_base(client)
    build_image(client, context, image, {LABEL: "test"})
    script = str(row["eval_script"]).replace(str(row["base_commit"]), commit)
    changed = {"image": image, "base_commit": commit, "eval_script": script}
    yield parse({**row, **changed}, where=source.instance_id)
    client.images.remove(image, force=True)


def row_of(instance_id: str, data: Path) -> dict[str, Any]:
    """The published row."""
    files = [data / "swebench" / f"{name}_test.parquet" for name in ("verified", "lite")]
    row, *_ = pq.read_table(files, filters=[("instance_id", "=", instance_id)]).to_pylist()
    return dict(row)


def repository(source: Source, row: dict[str, Any], folder: Path, path: Path) -> str:
    """Make a repository of the source distribution. The id of its commit."""
    source_distribution(sys.executable, source.release, folder).rename(path)
    if source.release.startswith("sympy="):
        (path / "bin" / "test").write_text(f"#!/usr/bin/env python\n{BIN_TEST}")
        (path / "bin" / "test").chmod(0o755)
    git(path, "init", "-q")
    (path / ".git" / "info" / "exclude").write_text(GENERATED)
    git(path, "add", ".")
    git(path, *IDENTITY, "commit", "-qm", source.release)
    git(path, "-c", "pack.window=0", "repack", "-adq")  # images of few files are built faster
    for patch in ("patch", "test_patch"):
        git(path, "apply", "--check", text=str(row[patch]))
    return git(path, "rev-parse", "HEAD").strip()


def git(path: Path, *arguments: str, text: str = "") -> str:
    """Run git."""
    done = subprocess.run(
        ["git", "-c", "gc.auto=0", *arguments],
        cwd=path,
        input=text,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout
