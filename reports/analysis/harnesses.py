"""The grid of harnesses and models: rates, agreement of rankings, interactions."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from typing import TYPE_CHECKING, Any

from reports.analysis.paired import read_rows
from reports.harnesses import HarnessGrid, Interaction, RankAgreement
from reports.statistics import Bootstrap, kendall_tau, settings_for
from reports.types import ArmSummary

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

Resolved = Mapping[str, Mapping[str, float]]
"""Share of the repeats that an arm resolved, by arm and instance."""

RANKED = 4
"""Least number of harnesses for an agreement of rankings. Of two, it is always 1 or -1."""

_Quad = tuple[tuple[str, str], tuple[str, str]]
"""Two harnesses and two models."""

_DECLARED = """
    select
        arm,
        agent,
        model,
        json_extract(declaration, '$.arms') as declared_arms,
        json_extract(declaration, '$.model') as declared_model
    from staging.experiments
"""
"""Declared arms without their instances, which may be a million texts."""

ESTIMATED = 20
"""Maximum number of interactions with an interval, the largest ones."""


def read_grid(
    connection: DuckDBPyConnection,
    arms: Sequence[ArmSummary],
    bootstrap: Bootstrap | None = None,
) -> HarnessGrid | None:
    """Return the grid of the arms that are no controls.

    Return None if no two models ran with the same two harnesses. The harness of a declared arm is
    everything about it but its name and its model.
    """
    names = [arm.name for arm in arms if not arm.is_control]
    rows = read_rows(connection, _DECLARED)
    declared = {row["arm"]: row for row in rows if row["arm"] in names}
    settings = {name: _settings(declared[name]) for name in names if name in declared}
    harness = _labels({name: (key, label) for name, (key, label, _, _) in settings.items()})
    model = _labels({name: (key, label) for name, (_, _, key, label) in settings.items()})
    placed: dict[tuple[str, str], str] = {}
    for name in settings:
        placed.setdefault((harness[name], model[name]), name)
    harnesses, models = dict.fromkeys(harness.values()), dict.fromkeys(model.values())
    shared = {
        (one, other): [h for h in harnesses if (h, one) in placed and (h, other) in placed]
        for one, other in combinations(models, 2)
    }
    if not any(len(of_both) > 1 for of_both in shared.values()):
        return None
    resolved = _read_resolved(connection, placed.values())
    bootstrap = bootstrap or settings_for(len(next(iter(resolved.values()))))
    found = sorted(
        _interactions(shared, placed, resolved), key=lambda one: -abs(sum(one[2]) / len(one[2]))
    )
    rates = {arm.name: arm.rate for arm in arms}
    return HarnessGrid(
        harnesses=tuple(harnesses),
        models=tuple(models),
        arms=placed,
        agreements=tuple(
            RankAgreement(
                pair,
                len(of_both),
                kendall_tau(*([rates[placed[h, each]] for h in of_both] for each in pair))
                if len(of_both) >= RANKED
                else None,
            )
            for pair, of_both in shared.items()
            if len(of_both) > 1
        ),
        interactions=tuple(_estimate(*one, bootstrap) for one in found[:ESTIMATED]),
        all_interactions=len(found),
    )


def _settings(row: Mapping[str, Any]) -> tuple[str, str, str, str]:
    """Return key and label of an arm's harness, and key and label of its model."""
    for arm in json.loads(row["declared_arms"] or "[]"):
        # An import declares the names of its arms alone.
        if isinstance(arm, dict) and arm.get("name") == row["arm"]:
            rest = {name: value for name, value in arm.items() if name not in ("name", "model")}
            options = arm.get("options") or {}
            recipe = options.get("recipe")
            label = recipe.get("name") if isinstance(recipe, dict) else recipe
            if label and options.get("release"):
                label = f"{label} {options['release']}"
            of_all = json.loads(row["declared_model"] or "null")
            spec = json.dumps(arm.get("model") or of_all, sort_keys=True)
            return json.dumps(rest, sort_keys=True), str(label or row["agent"]), spec, row["model"]
    return row["agent"], row["agent"], row["model"], row["model"]


def _labels(keys: Mapping[str, tuple[str, str]]) -> dict[str, str]:
    """Return a label for each arm, given key and label. Equal labels of other keys name an arm."""
    first: dict[str, str] = {}
    for arm, (key, _) in keys.items():
        first.setdefault(key, arm)
    times = Counter(label for _, label in set(keys.values()))
    return {
        arm: f"{label} ({first[key]})" if times[label] > 1 else label
        for arm, (key, label) in keys.items()
    }


def _read_resolved(connection: DuckDBPyConnection, arms: Iterable[str]) -> Resolved:
    shares: dict[str, dict[str, float]] = {arm: {} for arm in sorted(set(arms))}
    rows = connection.execute(
        """
        select arm, instance_id, resolved / planned
        from marts.arm_instances
        where arm in (select unnest($1))
        """,
        [list(shares)],
    ).fetchall()
    for arm, instance, share in rows:
        shares[arm][instance] = share
    return shares


def _interactions(
    shared: Mapping[tuple[str, str], Sequence[str]],
    placed: Mapping[tuple[str, str], str],
    resolved: Resolved,
) -> Iterator[tuple[_Quad, Sequence[str], Sequence[float]]]:
    """Yield harnesses and models with the instances of all four arms and the values of these."""
    for models, of_both in shared.items():
        for harnesses in combinations(of_both, 2):
            a, b, c, d = (resolved[placed[h, m]] for m in models for h in harnesses)
            instances = sorted(a.keys() & b.keys() & c.keys() & d.keys())
            if instances:
                values = [a[i] - b[i] - (c[i] - d[i]) for i in instances]
                yield (harnesses, models), instances, values


def _estimate(
    quad: _Quad, instances: Sequence[str], values: Sequence[float], bootstrap: Bootstrap
) -> Interaction:
    estimate = bootstrap.estimate(
        lambda total, number: total / number, [values, [1.0] * len(values)], instances
    )
    assert estimate is not None, "there is an instance"
    return Interaction(*quad, estimate)
