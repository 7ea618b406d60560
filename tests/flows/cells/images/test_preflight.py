"""Images are checked once before a run; failures are reported and their instances skipped."""

from pathlib import Path
from typing import Any

import pytest

from flows.benchmark import benchmark
from flows.display.errors import IncompleteRun
from flows.storage.lake import Lake
from tests.flows.conftest import trial
from tests.unfit_images import FIT, UNFIT, write_dataset


@pytest.fixture
def dataset(tmp_path: Path) -> str:
    return write_dataset(tmp_path)


def attempts(lake_path: str) -> dict[str, dict[str, Any]]:
    lake = Lake.existing(lake_path)
    rows = [row for unit in lake.units("attempts", "*") for row in lake.find("attempts", unit)]
    return {row["instance_id"]: row for row in rows}


@pytest.mark.slow
@pytest.mark.usefixtures("prefect")
@pytest.mark.full
async def test_an_unfit_instance_is_reported_and_not_run(lake_path: str, dataset: str) -> None:
    """The fit instance gets a verdict. The unfit one gets a refused row with the reason in every
    run, until the preflight is switched off."""
    gold = [{"name": "gold", "agent": "gold"}]
    declared = trial(dataset=dataset, select={}, arms=gold, primary=None, preflight=True)
    for _ in (1, 2):
        with pytest.raises(IncompleteRun, match="1 of 2 cells not run"):
            await benchmark(declared, lake_path)
        rows = attempts(lake_path)
        assert rows[FIT.instance_id]["outcome"] == "submitted"
        assert rows[UNFIT.instance_id]["outcome"] == "refused"
        assert rows[UNFIT.instance_id]["detail"].startswith("preflight failed: gold: ")
    assert (Path(lake_path) / "reports" / "trial" / "index.html").is_file()
    await benchmark(trial(dataset=dataset, select={}, arms=gold, primary=None), lake_path)
    assert attempts(lake_path)[UNFIT.instance_id]["outcome"] == "submitted"
