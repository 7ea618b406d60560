"""Missing requirements are found before anything starts."""

from pathlib import Path

import pytest

from flows.display.errors import UsageError
from flows.experiments import declaration, plan
from flows.experiments.needs import find_full_disks


def test_a_disk_needs_room(tmp_path: Path) -> None:
    """Each disk with too little is one line. A folder need not exist yet."""
    folders = [tmp_path / "lake" / "of" / "mine", tmp_path]
    assert find_full_disks(folders, 1) == []
    [line] = find_full_disks(folders, 10**18)
    assert line.startswith(f"the disk of {tmp_path} has ")
    assert "GB free, and a run needs 1000000000 GB" in line


async def test_a_missing_dataset_hides_no_other_mistake(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each mistake is one line."""
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    declared = declaration.parse(
        {
            "name": "x",
            "dataset": str(tmp_path / "rows.json"),
            "arms": [{"name": "a", "agent": "mini", "model": "openai/gpt-4o"}],
        },
        "test",
    )
    with pytest.raises(UsageError) as refused:
        await plan.check(declared, str(tmp_path / "lake"))
    dataset, address = refused.value.args
    assert "there is no such file or folder" in dataset
    assert "127.0.0.1:9 refuses connections" in address
    assert not (tmp_path / "lake").exists()
