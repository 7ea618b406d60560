"""Types of the grid of harnesses and models."""

from collections.abc import Mapping
from dataclasses import dataclass

from reports.estimates import Estimate


@dataclass(frozen=True)
class RankAgreement:
    """Agreement of two models on the order of harnesses."""

    models: tuple[str, str]
    harnesses: int
    """Number of harnesses that ran with both models."""
    tau: float | None
    """Kendall's tau-b of their rates, or None with fewer than four harnesses, or if all rates with
    one model are equal."""


@dataclass(frozen=True)
class Interaction:
    """Dependence of the lead of one harness over another on the model."""

    harnesses: tuple[str, str]
    models: tuple[str, str]
    estimate: Estimate
    """The lead with the first model less the lead with the second, as shares of cells."""


@dataclass(frozen=True)
class HarnessGrid:
    """Arms that are combinations of at least two harnesses and two models."""

    harnesses: tuple[str, ...]
    models: tuple[str, ...]
    arms: Mapping[tuple[str, str], str]
    """Names of the arms by harness and model."""
    agreements: tuple[RankAgreement, ...]
    interactions: tuple[Interaction, ...]
    """The largest interactions, in descending order."""
    all_interactions: int
    """Number of pairs of harnesses × pairs of models."""
