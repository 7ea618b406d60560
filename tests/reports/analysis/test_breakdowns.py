"""Breakdowns equal independent calculations."""

from itertools import combinations
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reports.questions.effort.section import read_spreads
from reports.questions.instances.section import read_instances, read_repeats
from reports.relations import open_marts, read_rows
from reports.statistics.proportions import wilson_interval
from reports.statistics.repeats import pass_all_k, pass_at_k
from tests.reports.lake_fixture import LakeBuilder
from tests.reports.many_arms import repository, verdicts


@given(attempts=st.integers(1, 8), data=st.data())
def test_chances_are_shares_of_all_choices(attempts: int, data: st.DataObject) -> None:
    """pass@k and pass^k are the shares of all choices of k attempts with one and all resolved."""
    verdict = data.draw(st.lists(st.booleans(), min_size=attempts, max_size=attempts))
    k = data.draw(st.integers(1, attempts))
    choices = list(combinations(verdict, k))
    any_one = sum(map(any, choices)) / len(choices)
    all_of_them = sum(map(all, choices)) / len(choices)
    assert float(pass_at_k([attempts], [sum(verdict)], k)[0]) == pytest.approx(any_one)
    assert float(pass_all_k([attempts], [sum(verdict)], k)[0]) == pytest.approx(all_of_them)


def test_published_runs_agree_with_pandas(shared_data: Path, lake: LakeBuilder) -> None:
    """Overlaps, rates by repository and difficulty, and quartiles equal those of pandas."""
    runs = pd.read_parquet(shared_data / "mini_runs/verified_three_models.parquet")
    rows = pd.read_parquet(
        shared_data / "swebench/verified_test.parquet", columns=["instance_id", "difficulty"]
    )
    difficulty = rows.set_index("instance_id").difficulty
    ids = sorted(runs.instance_id.unique())
    lake.declare(sorted(runs.model.unique()), ids, environment="imported")
    for model, of_model in runs.groupby("model"):
        own = of_model.set_index("instance_id").loc[ids]
        verdicts(
            lake, str(model), list(own.resolved), list(own.cost_usd), ids,
            each={"model_calls": list(own.api_calls), "difficulty": list(difficulty.loc[ids])},
        )  # fmt: skip
    connection = open_marts(lake.root, "trial")
    instances = read_instances(connection, sorted(runs.model.unique()))
    groups = read_rows(connection, "from marts.groups")
    spreads = read_spreads(connection)
    connection.close()

    wide = runs.pivot_table(index="instance_id", columns="model", values="resolved").astype(bool)
    resolving = wide.sum(axis=1)
    assert {each.instance_id: len(each.resolving) for each in instances} == dict(resolving)
    alone = {one.instance_id: one.resolving[0] for one in instances if len(one.resolving) == 1}
    assert alone == {
        name: wide.columns[wide.loc[name]][0] for name in resolving[resolving == 1].index
    }

    runs["repository"] = runs.instance_id.map(repository)
    runs["difficulty"] = runs.instance_id.map(difficulty)
    for kind in ("repository", "difficulty"):
        expected = runs.groupby(["model", kind]).resolved.agg(["size", "sum"])
        rates = {
            (each["arm"], each["name"]): (each["planned"], each["resolved"])
            for each in groups
            if each["kind"] == kind
        }
        assert rates == {key: tuple(row) for key, row in expected.iterrows()}

    for model, of_model in runs.groupby("model"):
        for verdict, part in (("resolved", True), ("unresolved", False)):
            costs = of_model[of_model.resolved.astype(bool) == part].cost_usd
            spread = spreads[str(model), "cost", verdict]
            assert spread.cells == len(costs)
            assert (spread.lower_quartile, spread.median, spread.upper_quartile) == pytest.approx(
                tuple(costs.quantile([0.25, 0.5, 0.75]))
            )
        calls = spreads[str(model), "calls", "all"]
        assert (calls.median, calls.most) == (of_model.api_calls.median(), of_model.api_calls.max())


def test_repeats_are_flaky_or_not(lake: LakeBuilder) -> None:
    """Instances are always, sometimes or never resolved; the chances follow from their counts."""
    lake.declare(["a"], ["i1", "i2", "i3"], repeats=3)
    for instance, resolved in (("i1", 3), ("i2", 1), ("i3", 0)):
        for repeat in range(3):
            outcome = "resolved" if repeat < resolved else "unresolved"
            lake.cell("a", instance, outcome, repeat=repeat)
    connection = open_marts(lake.root, "trial")
    (repeats,) = read_repeats(connection)
    connection.close()
    assert (repeats.attempts, repeats.always, repeats.flaky, repeats.never) == (3, 1, 1, 1)
    assert [repeats.pass_at[k][0] for k in (1, 2, 3)] == pytest.approx([4 / 9, 5 / 9, 2 / 3])
    assert [repeats.pass_all[k][0] for k in (1, 2, 3)] == pytest.approx([4 / 9, 1 / 3, 1 / 3])
    assert repeats.pass_all[3][1] == wilson_interval(1, 3)
