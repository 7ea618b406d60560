"""The observers on the real runners: pytest of every major version, Django's and SymPy's.

`recorded.json` holds their records for `test_channel.py`. To record them again, set
`DURABENCH_RECORD=1`.
"""

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.agent.runners.running import (
    BIN_TEST,
    DJANGO,
    ENDINGS_OF_PYTEST,
    ENDINGS_OF_SYMPY,
    ENDINGS_OF_UNITTEST,
    PYTEST,
    SYMPY,
    recorded,
)
from tests.archives import pip, source_distribution

RECORDED = Path(__file__).with_name("recorded.json")


@dataclass(frozen=True)
class Package:
    """A release, the Python version that it runs on, and other requirements of that version."""

    release: str
    python: str
    others: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.release} on {self.python}"


_OLD = (
    "attrs==22.2.0",
    "py<1.11",
    "six",
    "more-itertools<9",
    "importlib-metadata<5",
    "zipp<3.7",
    "typing_extensions<4.2",
)
PYTESTS = [
    Package("pytest==3.6.4", "3.6", (*_OLD, "pluggy<0.8", "atomicwrites<2")),
    Package(
        "pytest==4.6.11",
        "3.6",
        (*_OLD, "pluggy<0.14", "wcwidth<0.2.6", "packaging<22", "pyparsing<3.1"),
    ),
    Package("pytest==5.4.3", "3.8"),
    Package("pytest==6.0.2", "3.8"),
    Package("pytest==6.2.5", "3.9"),
    Package("pytest==7.4.4", "3.11"),
    Package("pytest==8.3.4", "3.11"),
]
DJANGO_3 = Package("Django==3.0", "3.8", ("pytz", "sqlparse", "asgiref==3.2.10"))
SYMPY_1_5 = Package("sympy==1.5", "3.8", ("mpmath==1.3.0",))

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.mark.parametrize("package", PYTESTS, ids=str)
def test_pytest(package: Package, tmp_path: Path) -> None:
    """The observer works with every major version of pytest from 3 on."""
    programs = installed(package, [package.release, *package.others], tmp_path)
    (tmp_path / "repo").mkdir()
    (tmp_path / "repo" / "test_endings.py").write_text(ENDINGS_OF_PYTEST)
    compare(package, recorded(PYTEST, "test_endings.py", tmp_path / "repo", programs))


def test_django(tmp_path: Path) -> None:
    """The observer works with Django's `tests/runtests.py`, which takes labels."""
    programs = installed(DJANGO_3, list(DJANGO_3.others), tmp_path)
    source = source_distribution("python", DJANGO_3.release, tmp_path)
    subprocess.run(
        [programs / "python", "-c", PATH_FILE, source], check=True
    )  # like an editable installation
    (source / "tests" / "test_endings.py").write_text(ENDINGS_OF_UNITTEST)
    compare(DJANGO_3, recorded(DJANGO, "tests/test_endings.py", source, programs))
    existing = recorded(DJANGO, "tests/shortcuts/tests.py", source, programs)
    assert (existing["exit_code"], existing["problem"]) == (0, "")


def test_sympy(tmp_path: Path) -> None:
    """The observer works with SymPy's `bin/test` in one process and without its cache."""
    programs = installed(SYMPY_1_5, list(SYMPY_1_5.others), tmp_path)
    source = source_distribution("python", SYMPY_1_5.release, tmp_path)
    (source / "bin" / "test").write_text(BIN_TEST)
    new = "sympy/core/tests/test_endings.py"
    (source / new).write_text(ENDINGS_OF_SYMPY)
    compare(SYMPY_1_5, recorded(SYMPY, new, source, programs))
    existing = recorded(SYMPY, "sympy/core/tests/test_truediv.py", source, programs)
    assert (existing["exit_code"], existing["problem"]) == (0, "")


PATH_FILE = """\
import pathlib, sys, sysconfig
path = pathlib.Path(sysconfig.get_paths()["purelib"], "source.pth")
path.write_text(sys.argv[1])
"""


def compare(package: Package, found: dict[str, Any]) -> None:
    """Compare names and outcomes with those recorded, or record them."""
    known = json.loads(RECORDED.read_text()) if RECORDED.exists() else {}
    if os.environ.get("DURABENCH_RECORD"):
        known[package.release] = without_paths(found)
        RECORDED.write_text(json.dumps(known, indent=1, sort_keys=True) + "\n")
    assert outcomes(found) == outcomes(known[package.release])


def outcomes(message: dict[str, Any]) -> Any:
    """Return the exit code, the problem, and each record without its text."""
    kept = [record[:4] for record in message["records"] if record[0] not in ("file", "begin")]
    return message["exit_code"], message["problem"], kept


def without_paths(message: dict[str, Any]) -> dict[str, Any]:
    """Return the records without parts that differ between machines."""
    records = [
        [*record[:4], *(text[-200:].rpartition("/")[2] for text in record[4:])]
        for record in message["records"]
        if record[0] != "file"
    ]
    return {**message, "records": records}


def installed(package: Package, requirements: list[str], folder: Path) -> Path:
    """Return the programs of a fresh virtual environment, or skip the test."""
    name = f"python{package.python}"
    environment = {**os.environ, "PYENV_VERSION": package.python}
    ours = f"{sys.version_info.major}.{sys.version_info.minor}"
    python = sys.executable if package.python == ours else shutil.which(name)
    if (
        python is None
        or subprocess.run([python, "-V"], env=environment, capture_output=True).returncode
    ):
        pytest.skip(f"{package.release} needs {name}")
    subprocess.run([python, "-m", "venv", folder / "venv"], env=environment, check=True)
    pip(folder / "venv" / "bin" / "python", "install", *requirements)
    return folder / "venv" / "bin"
