"""Content-addressed storage is atomic and verifies what it reads."""

import hashlib
from pathlib import Path

import pytest

from agent.errors import JournalError
from agent.journal.blobs import Blobs


@pytest.fixture
def blobs(tmp_path: Path) -> Blobs:
    """A store whose folder does not exist yet."""
    return Blobs(tmp_path / "deep" / "store")


def test_damage_is_noticed(blobs: Blobs) -> None:
    """A file whose bytes have changed is never returned."""
    digest = blobs.put(b"something")
    (file,) = _files(blobs)
    file.write_bytes(b"somethinG")
    with pytest.raises(JournalError, match="is damaged") as caught:
        blobs.get(digest)
    assert not caught.value.retryable


def test_an_interrupted_write_leaves_nothing(blobs: Blobs, monkeypatch: pytest.MonkeyPatch) -> None:
    """A write that fails on a full disk leaves no file, complete or partial."""

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("agent.journal.blobs.os.fsync", full)
    with pytest.raises(JournalError, match="cannot keep 4 bytes: .*No space left") as caught:
        blobs.put(b"data")
    assert caught.value.retryable
    assert _files(blobs) == []
    assert not blobs.has(hashlib.sha256(b"data").hexdigest())


def _files(blobs: Blobs) -> list[Path]:
    return [path for path in blobs.root.rglob("*") if path.is_file()]
