"""The grid of harnesses and models: rates, agreement of rankings, interactions."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Any, NamedTuple

from reports.format import DASH, count, percent, plural, point_limits, points
from reports.relations import read_rows
from reports.rendering.sections import Row, Section, Table
from reports.statistics.bootstrap import settings_for
from reports.statistics.ranks import kendall_tau
from reports.types import Report

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

RANKED = 4
"""Least number of harnesses for an agreement of rankings. Of two, it is always 1 or -1."""

ESTIMATED = 20
"""Maximum number of interactions with an interval, the largest ones."""

_DECLARED = """
    select
        arm,
        agent,
        model,
        json_extract(declaration, '$.arms') as declared_arms,
        json_extract(declaration, '$.model') as declared_model
    from staging.experiments
    where arm in (select unnest($arms))
"""
"""Declared arms without their instances, which may be a million texts."""

_RESOLVED = """
    select arm, instance_id, resolved / planned as share
    from marts.arm_instances
    where arm in (select unnest($arms))
"""

Models = tuple[str, str]


class Interaction(NamedTuple):
    """Two harnesses and two models that ran together."""

    harnesses: tuple[str, str]
    models: Models
    leads: Mapping[str, float]
    """At each instance of all four arms, the lead of one harness with the first model less that
    with the second."""

    @property
    def mean(self) -> float:
        """Mean of the leads."""
        return sum(self.leads.values()) / len(self.leads)


@dataclass(frozen=True)
class HarnessGrid:
    """Arms that are combinations of at least two harnesses and two models."""

    harnesses: tuple[str, ...]
    models: tuple[str, ...]
    arms: Mapping[tuple[str, str], str]
    """Names of the arms by harness and model."""

    @property
    def shared(self) -> Mapping[Models, Sequence[str]]:
        """Harnesses that ran with both of two models."""
        return {
            pair: [h for h in self.harnesses if all((h, model) in self.arms for model in pair)]
            for pair in combinations(self.models, 2)
        }


def answer(connection: DuckDBPyConnection, report: Report) -> Section | None:
    """Return tables and footnotes, or None if no two models ran with the same two harnesses."""
    grid = read_grid(connection, [arm.name for arm in report.arms if not arm.is_control])
    if not any(len(harnesses) > 1 for harnesses in grid.shared.values()):
        return None
    rates = {key: report.arm(arm).rate for key, arm in grid.arms.items()}
    tables = (
        Table(
            "Share of planned cells resolved",
            ("harness", *grid.models),
            tuple(
                (harness, *(_show_rate(rates.get((harness, model))) for model in grid.models))
                for harness in grid.harnesses
            ),
        ),
        Table(
            "Do two models rank the harnesses alike?",
            ("model", "and model", "harnesses", "Kendall's tau-b"),
            tuple(
                (*pair, count(len(harnesses)), _show_agreement(pair, harnesses, rates))
                for pair, harnesses in grid.shared.items()
                if len(harnesses) > 1
            ),
            2,
        ),
        _list_interactions(connection, grid),
    )
    return Section("grid", "Harnesses by model", "", tables, _FOOTNOTES, is_detail=True)


def _show_rate(rate: float | None) -> str:
    return DASH if rate is None else percent(rate)


def _show_agreement(
    models: Models, harnesses: Sequence[str], rates: Mapping[tuple[str, str], float]
) -> str:
    if len(harnesses) < RANKED:
        return DASH
    tau = kendall_tau(*([rates[harness, model] for harness in harnesses] for model in models))
    return DASH if tau is None else f"{tau:+.2f}".replace("-", "−")


def read_grid(connection: DuckDBPyConnection, names: Sequence[str]) -> HarnessGrid:
    """Place the arms. The harness of one is all that was declared but its name and its model."""
    rows = {row["arm"]: row for row in read_rows(connection, _DECLARED, {"arms": list(names)})}
    settings = {name: _read_settings(rows[name]) for name in names if name in rows}
    harness = _label({name: (key, label) for name, (key, label, _, _) in settings.items()})
    model = _label({name: (key, label) for name, (_, _, key, label) in settings.items()})
    arms: dict[tuple[str, str], str] = {}
    for name in settings:
        arms.setdefault((harness[name], model[name]), name)
    return HarnessGrid(
        tuple(dict.fromkeys(harness.values())), tuple(dict.fromkeys(model.values())), arms
    )


def _read_settings(row: Mapping[str, Any]) -> tuple[str, str, str, str]:
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
            model = arm.get("model") or json.loads(row["declared_model"] or "null")
            spec = json.dumps(model, sort_keys=True)
            return json.dumps(rest, sort_keys=True), str(label or row["agent"]), spec, row["model"]
    return row["agent"], row["agent"], row["model"], row["model"]


def _label(keys: Mapping[str, tuple[str, str]]) -> dict[str, str]:
    """Return a label for each arm, given key and label. Equal labels of other keys name an arm."""
    first: dict[str, str] = {}
    for arm, (key, _) in keys.items():
        first.setdefault(key, arm)
    times = Counter(label for _, label in set(keys.values()))
    return {
        arm: f"{label} ({first[key]})" if times[label] > 1 else label
        for arm, (key, label) in keys.items()
    }


def _list_interactions(connection: DuckDBPyConnection, grid: HarnessGrid) -> Table:
    """Return the number of interactions, and estimates of the largest ones."""
    arms = sorted(grid.arms.values())
    shares: dict[str, dict[str, float]] = {arm: {} for arm in arms}
    for row in read_rows(connection, _RESOLVED, {"arms": arms}):
        shares[row["arm"]][row["instance_id"]] = row["share"]
    bootstrap = settings_for(len(shares[arms[0]]))
    interactions = sorted(
        _find_interactions(grid, shares), key=lambda interaction: -abs(interaction.mean)
    )
    rows: list[Row] = []
    for interaction in interactions[:ESTIMATED]:
        columns = [[*interaction.leads.values()], [1.0] * len(interaction.leads)]
        estimate = bootstrap.estimate(lambda total, n: total / n, columns, [*interaction.leads])
        assert estimate is not None, "there is an instance"
        rows.append(
            (
                *interaction.harnesses,
                *interaction.models,
                points(estimate.value),
                point_limits(estimate.interval),
                plural(estimate.clusters, "instance"),
            )
        )
    title = "Does the lead of a harness depend on the model?"
    if len(rows) < len(interactions):
        title += f" The {len(rows)} largest of {count(len(interactions))}"
    header = ("harness", "against", "with", "less with", "interaction, points", "95 % interval")
    return Table(title, (*header, "over"), tuple(rows), 4)


def _find_interactions(
    grid: HarnessGrid, shares: Mapping[str, Mapping[str, float]]
) -> Iterator[Interaction]:
    for models, of_both in grid.shared.items():
        for harnesses in combinations(of_both, 2):
            a, b, c, d = (shares[grid.arms[h, m]] for m in models for h in harnesses)
            instances = sorted(a.keys() & b.keys() & c.keys() & d.keys())
            if instances:
                leads = {i: a[i] - b[i] - (c[i] - d[i]) for i in instances}
                yield Interaction(harnesses, models, leads)


_FOOTNOTES = (
    "The harness of an arm is everything that was declared of it but its name and its model.",
    "tau-b is 1 if two models order the harnesses alike and −1 if they reverse the order. "
    "With fewer than four harnesses there is none. Kendall, M. G. (1945). Biometrika 33, 239-251.",
    "An interaction is the difference between two harnesses with one model less that with another, "
    "over the instances of all four arms. Its interval is from resampling instances, and is not "
    "adjusted for the number of interactions: all are exploratory.",
)
