"""Published projects as git repositories, and images in which their dependencies can be installed.

Source distributions come from the Python package index, and packages that ship their tests from npm
and Debian. What a project installs is fetched on this machine and laid into an image, so that
building needs no network. A test is skipped if a tool is missing or an index does not deliver.
"""

import fcntl
import os
import secrets
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from docker import DockerClient

from eval.base_image import BASE_IMAGE, LABEL, build_image, ensure_base
from tests.agent.repositories import IDENTITY
from tests.archives import unpack
from tests.real_instances.images import copy_python

_FOLDER = Path(tempfile.gettempdir()) / f"durabench-test-published-{os.getuid()}"
"""Downloads, shared by all processes and later runs."""

PYTHON = "3.12"
PIP = "pip==25.0.1"
"""The pip of that Python's official image."""
BACKENDS = ("pip>=25.1", "uv", "setuptools<81", "wheel", "flit_core<4")


def from_pypi(release: str) -> Path:
    """Return a git repository of a source distribution, such as `flask==3.1.0`."""

    def fetch(folder: Path) -> Path:
        name = release.partition("=")[0]
        options = ("--no-binary", name, "--no-deps", release)
        _run(str(_python()), "-m", "pip", "-q", "download", *options, folder=folder)
        [archive] = folder.glob("*.tar.gz")
        return _extracted(archive, folder)

    return _repository(release, fetch)


def from_npm(package: str) -> Path:
    """Return a git repository of a package, such as `flat@5.0.2`."""
    _need("npm")

    def fetch(folder: Path) -> Path:
        _run("npm", "pack", "--silent", package, folder=folder)
        [archive] = folder.glob("*.tgz")
        return _extracted(archive, folder)

    return _repository(package, fetch)


def from_debian(package: str, place: str) -> Path:
    """Return a git repository of a folder in a Debian package."""
    _need("apt-get")

    def fetch(folder: Path) -> Path:
        _run("apt-get", "-q", "download", package, folder=folder)
        [archive] = folder.glob("*.deb")
        _run("dpkg-deb", "-x", archive.name, "files", folder=folder)
        return folder / "files" / place

    return _repository(package, fetch)


@contextmanager
def python_image(client: DockerClient, repository: Path, install: str) -> Iterator[str]:
    """Build an image with Python, its old pip, and what an install command needs."""
    with _image(client) as (context, name, build):
        local = context / "files" / "usr" / "local"
        copy_python(PYTHON, local)
        for link in ("python", "python3"):
            (local / "bin" / link).unlink(missing_ok=True)
            (local / "bin" / link).symlink_to(f"python{PYTHON}")
        packages = local / "lib" / f"python{PYTHON}" / "site-packages"
        pip = [str(_python()), "-m", "pip", "-q"]
        _run(*pip, "install", "--target", str(packages), PIP, folder=context)
        wheels, folder = context / "files" / "wheels", str(context)
        scratch = context / "scratch"  # building changes files of the repository
        shutil.copytree(repository, scratch)
        _run(*pip, "download", "-d", str(wheels), *BACKENDS, folder=context)
        prepare, _, last = install.rpartition(" && ")
        if "uv export" in prepare:
            _run("bash", "-ec", prepare.rpartition(" && ")[2], folder=scratch, TMPDIR=folder)
        given = [word.replace("${TMPDIR:-/tmp}", folder) for word in shlex.split(last)[4:]]
        _run(*pip, "wheel", "-w", str(wheels), *given, folder=scratch)
        shutil.rmtree(scratch)
        build("RUN ldconfig\nENV PIP_NO_INDEX=1 PIP_FIND_LINKS=/wheels PIP_ROOT_USER_ACTION=ignore")
        yield name


@contextmanager
def node_image(client: DockerClient, repository: Path, install: str) -> Iterator[str]:
    """Build an image with Node.js, npm, and what an install command needs."""
    node = Path(_need("node")).resolve()
    npm = Path(_need("npm")).resolve().parents[1]
    with _image(client) as (context, name, build):
        local = context / "files" / "usr" / "local"
        (local / "bin").mkdir(parents=True)
        shutil.copy(node, local / "bin" / "node")
        shutil.copytree(npm, local / "lib" / "node_modules" / "npm", symlinks=True)
        for program in ("npm", "npx"):
            (local / "bin" / program).symlink_to(f"../lib/node_modules/npm/bin/{program}-cli.js")
        scratch = context / "scratch"
        shutil.copytree(repository, scratch)
        cache = context / "files" / "npm-cache"
        _run("bash", "-c", f"{install} --cache {cache}", folder=scratch)
        shutil.rmtree(scratch)
        build("ENV npm_config_cache=/npm-cache npm_config_offline=true")
        yield name


@contextmanager
def _image(client: DockerClient) -> Iterator[tuple[Path, str, Callable[[str], None]]]:
    """Yield a folder for `files`, the name of an image, and a function that builds it of them."""
    ensure_base(client)
    with tempfile.TemporaryDirectory(prefix="durabench-test-") as folder:
        context = Path(folder)
        name = f"durabench-test/{secrets.token_hex(4)}:latest"

        def build(lines: str) -> None:
            text = f"FROM {BASE_IMAGE}\nCOPY files /\n{lines}\n"
            (context / "Dockerfile").write_text(text)
            build_image(client, context, name, {LABEL: "test"})

        yield context, name, build
        client.images.remove(name, force=True)


def _repository(what: str, fetch: Callable[[Path], Path]) -> Path:
    """Return the repository of something published, fetched once on this machine."""
    _FOLDER.mkdir(mode=0o700, exist_ok=True)
    made = _FOLDER / what.replace("/", "-")
    with (_FOLDER / f"{made.name}.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not made.exists():
            with tempfile.TemporaryDirectory(dir=_FOLDER) as folder:
                files = fetch(Path(folder))
                for command in (
                    ["init", "-q", "-b", "main"],
                    ["add", "-A", "--force"],
                    [*IDENTITY, "commit", "-qm", what],
                ):
                    _run("git", *command, folder=files)
                files.rename(made)
    return made


def _extracted(archive: Path, folder: Path) -> Path:
    unpack(archive, folder / "files")
    [files] = (folder / "files").iterdir()
    return files


def _python() -> Path:
    """Return an interpreter with a pip that knows dependency groups, made once."""
    made = _FOLDER / "python"
    _FOLDER.mkdir(mode=0o700, exist_ok=True)
    with (_FOLDER / "python.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (made / "ready").exists():
            program = _need(f"python{PYTHON}")
            shutil.rmtree(made, ignore_errors=True)
            _run(program, "-m", "venv", str(made), folder=_FOLDER)
            pip = str(made / "bin" / "python"), "-m", "pip", "-q", "install"
            _run(*pip, *BACKENDS, folder=_FOLDER)
            (made / "ready").touch()
    return made / "bin" / "python"


def _need(program: str) -> str:
    found = shutil.which(program)
    if found is None:
        pytest.skip(f"there is no {program} on this machine")
    return found


def _run(*command: str, folder: Path, **variables: str) -> None:
    """Run a program, or skip the test if it fails: an index does not deliver."""
    path = f"{_FOLDER}/python/bin:{os.environ['PATH']}"
    environment = {**os.environ, "PYENV_VERSION": PYTHON, "PATH": path, **variables}
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        pytest.skip(f"{shlex.join(command)[:200]}: {(done.stderr or done.stdout).strip()[-400:]}")
