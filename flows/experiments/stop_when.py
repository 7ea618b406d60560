"""The declared rule by which an experiment ends before all of its cells are done."""

from typing import Literal

from pydantic import Field

from flows.experiments.arms import Declared


class StopWhen(Declared):
    """When an experiment ends early."""

    primary: Literal["decided"] = Field(
        description="decided: as soon as the evidence on the primary comparison is enough"
    )
    alpha: float = Field(
        default=0.05,
        gt=0,
        lt=0.5,
        description="share of experiments with equal arms that may be decided wrongly, however "
        "often is looked",
    )
