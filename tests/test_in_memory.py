"""The folder for temporary files of a test run."""

import os
import tempfile
from pathlib import Path

import pytest

from tests import in_memory


@pytest.fixture(autouse=True)
def memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Let a folder be the memory, with room for everything."""
    monkeypatch.setattr(in_memory, "MEMORY", tmp_path)
    monkeypatch.setattr(in_memory, "ROOM_BYTES", 0)
    monkeypatch.setattr(tempfile, "tempdir", tempfile.gettempdir())
    monkeypatch.setenv("TMPDIR", "")  # so that it is restored at the end
    monkeypatch.delenv("TMPDIR")
    return tmp_path


@pytest.fixture
def config(pytestconfig: pytest.Config, monkeypatch: pytest.MonkeyPatch) -> pytest.Config:
    """Return the configuration of a run without `--basetemp`."""
    monkeypatch.setattr(pytestconfig.option, "basetemp", None)
    return pytestconfig


def test_temporary_files_are_in_memory(memory: Path, config: pytest.Config) -> None:
    """Those of the process, of its children and of the tests."""
    files = in_memory.begin(config)
    assert files is not None
    folder = files.folder
    assert folder == memory / f"durabench.{os.getpid()}"
    assert tempfile.gettempdir() == os.environ["TMPDIR"] == str(folder)
    assert Path(config.option.basetemp).parent == folder


def test_only_what_ended_runs_left_is_removed(memory: Path, config: pytest.Config) -> None:
    """The folder of a process that does not exist goes, that of a running one stays."""
    for name in ("durabench.999999999", f"durabench.{os.getppid()}", "durabench.other"):
        (memory / name / "deep").mkdir(parents=True)
    in_memory.begin(config)
    left = {path.name for path in memory.iterdir()}
    assert left == {f"durabench.{pid}" for pid in (os.getppid(), os.getpid(), "other")}


def test_another_place_is_respected(
    memory: Path, config: pytest.Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    """TMPDIR and --basetemp name one."""
    monkeypatch.setattr(config.option, "basetemp", "elsewhere")
    assert in_memory.begin(config) is None
    monkeypatch.setattr(config.option, "basetemp", None)
    monkeypatch.setenv("TMPDIR", "elsewhere")
    assert in_memory.begin(config) is None
    assert not list(memory.iterdir())


def test_a_full_memory_is_left_alone(
    memory: Path, config: pytest.Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Temporary files are where they would be anyway."""
    monkeypatch.setattr(in_memory, "ROOM_BYTES", 2**60)
    assert in_memory.begin(config) is None
    assert "TMPDIR" not in os.environ
    assert not list(memory.iterdir())
