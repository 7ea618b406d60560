"""The installation creates `.venv` quietly, or shows the error."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

NOISE = "WARNING: Location is ignored\n" * 30

OF_MAKE = ("MAKE", "PYTHON", "UV")
"""Beginnings of variables that `make test PYTHON=python3.12` sets for the tests."""

STAND_IN = f"""\
#!/bin/sh
[ "$1" = -c ] && exit 0
echo '{NOISE}'
echo '{NOISE}' >&2
echo "asked: $(basename "$0") $*"
case "$*" in
*requirements.lock*) exit "$ENDS_WITH" ;;
*venv*) mkdir -p .venv/bin && cp "$0" .venv/bin/python ;;
esac
"""
"""A stand-in for uv and Python that records its arguments and prints many warnings."""


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """Return a folder with the files that an installation reads and stand-ins for uv and Python."""
    for name in ("Makefile", "requirements.lock", "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path)
    (tmp_path / "bin").mkdir()
    for name in ("uv", "python3"):
        program = tmp_path / "bin" / name
        program.write_text(STAND_IN)
        program.chmod(0o755)
    return tmp_path


def install(clone: Path, tool: str, ends_with: int = 0) -> "subprocess.CompletedProcess[str]":
    if tool == "pip":
        (clone / "bin" / "uv").unlink()
    own = {name: value for name, value in os.environ.items() if not name.startswith(OF_MAKE)}
    tools = [str(clone / "bin")] + [
        folder
        for folder in os.environ["PATH"].split(os.pathsep)
        if not (Path(folder) / "uv").exists()
    ]
    return subprocess.run(
        ["make", ".venv/ready"],
        cwd=clone,
        env={**own, "PATH": os.pathsep.join(tools), "ENDS_WITH": str(ends_with)},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


ASKED = {
    "uv": ["uv venv", "uv pip install", "uv pip install"],
    "pip": ["python3 -m venv", "python -m pip install", "python -m pip install"],
}


@pytest.mark.parametrize("tool", ASKED)
def test_what_succeeds_says_nothing(clone: Path, tool: str) -> None:
    """A successful installation prints nothing, logs all output, and uses uv if it is installed."""
    done = install(clone, tool)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    log = (clone / ".venv-install.log").read_text().splitlines()
    asked = [line.removeprefix("asked: ") for line in log if line.startswith("asked: ")]
    assert len(asked) == len(ASKED[tool])
    for command, wanted in zip(asked, ASKED[tool], strict=True):
        assert command.startswith(wanted)
    assert (clone / ".venv/ready").is_file()


@pytest.mark.parametrize("tool", ASKED)
def test_what_fails_shows_the_end_of_the_log(clone: Path, tool: str) -> None:
    """A failed installation shows the end of the log, and the next `make` tries again."""
    done = install(clone, tool, ends_with=1)
    assert done.returncode == 2
    assert "asked: " in done.stderr
    assert "the whole log is in .venv-install.log" in done.stderr
    assert len(done.stderr.splitlines()) < 30
    assert not (clone / ".venv/ready").exists()


def test_a_link_to_the_environment_of_another_clone_is_not_followed(clone: Path) -> None:
    """`make` refuses a `.venv` that is a link, because it would empty the other environment."""
    other = clone / "other"
    other.mkdir()
    (clone / ".venv").symlink_to(other)
    done = install(clone, "uv")
    assert done.returncode == 2
    assert ".venv is a link" in done.stderr
    assert list(other.iterdir()) == []
    assert not (clone / ".venv-install.log").exists()
