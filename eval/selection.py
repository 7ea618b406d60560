"""Selection of the dataset instances that an experiment runs on, as data."""

import difflib
import hashlib
import re
from collections.abc import Sequence

from pydantic import BaseModel, ConfigDict, Field, field_validator

from eval.errors import DatasetError
from eval.types import Instance, UnusableRow

_SLICE = re.compile(r"(-?\d+)?:(-?\d+)?(?::(\d+))?")


class Selection(BaseModel):
    """Filters, applied in the order of the fields. An empty filter keeps all instances.

    Raises:
        DatasetError: `regex` or `slice` is not valid.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    ids: list[str] = Field(default=[], description="Ids of the instances to keep.")
    regex: str = Field(
        default="", description="Regular expression to search for in the instance id."
    )
    slice: str = Field(
        default="", description="Positions in Python's slice notation, such as `0:5` or `::10`."
    )
    sample: int | None = Field(
        default=None,
        ge=1,
        description="Number of instances to draw at random from those that the other filters keep.",
    )
    seed: int = Field(
        default=0,
        description="Seed of the sample. With the same seed, a smaller sample is part of a larger "
        "one.",
    )

    # DatasetError is not a ValueError, so that pydantic lets its one-line message pass unchanged.
    @field_validator("regex")
    @classmethod
    def _regex_compiles(cls, value: str) -> str:
        try:
            re.compile(value)
        except re.error as error:
            raise DatasetError(f"{value!r} is not a regular expression: {error}") from None
        return value

    @field_validator("slice")
    @classmethod
    def _slice_parses(cls, value: str) -> str:
        if value:
            _parse_slice(value)
        return value


def select(
    instances: Sequence[Instance], selection: Selection, unusable: Sequence[UnusableRow] = ()
) -> list[Instance]:
    """Return the selected instances, in the order of the dataset. The result is deterministic.

    Rows that cannot be used are left out before anything is counted or drawn.

    Raises:
        DatasetError: an id is unknown or its row is unusable, the sample is larger than the
            number of remaining instances, or no instance is left.
    """
    chosen = _by_id(instances, selection.ids, unusable) if selection.ids else list(instances)
    if selection.regex:
        pattern = re.compile(selection.regex)
        chosen = [instance for instance in chosen if pattern.search(instance.instance_id)]
    if selection.slice:
        chosen = chosen[_parse_slice(selection.slice)]
    if not chosen:
        skipped = (
            f"; rows that cannot be used: {len(unusable)}, first {unusable[0]}" if unusable else ""
        )
        filters = ", ".join(f"{k} {v!r}" for k, v in selection if k in selection.model_fields_set)
        raise DatasetError(f"the selection ({filters}) leaves no instance{skipped}")
    if selection.sample is not None:
        chosen = _sample(chosen, selection.sample, selection.seed)
    return chosen


def _by_id(
    instances: Sequence[Instance], ids: Sequence[str], unusable: Sequence[UnusableRow]
) -> list[Instance]:
    selected = {row.instance_id: row for row in unusable if row.instance_id in ids}
    if selected:
        others = f"; {len(selected) - 1} more of the ids" if len(selected) > 1 else ""
        raise DatasetError(f"{next(iter(selected.values()))}{others}")
    available = [instance.instance_id for instance in instances]
    unknown = sorted(set(ids) - set(available))
    if unknown:
        near = difflib.get_close_matches(unknown[0], available, n=3)
        hint = f"; did you mean {' or '.join(near)}?" if near else ""
        raise DatasetError(f"not in the dataset: {', '.join(unknown)}{hint}")
    return [instance for instance in instances if instance.instance_id in set(ids)]


def _sample(instances: Sequence[Instance], size: int, seed: int) -> list[Instance]:
    """Return the instances with the lowest seeded hashes.

    With hashes instead of positions, the sample does not depend on the order of the dataset,
    and a larger sample keeps the instances that are already paid for.
    """
    if size > len(instances):
        raise DatasetError(f"a sample of {size} exceeds the number of instances, {len(instances)}")

    def rank(instance: Instance) -> str:
        return hashlib.sha256(f"{seed} {instance.instance_id}".encode()).hexdigest()

    limit = sorted(map(rank, instances))[size - 1]
    return [instance for instance in instances if rank(instance) <= limit]


def _parse_slice(text: str) -> slice:
    match = _SLICE.fullmatch(text.replace(" ", ""))
    if match is None or match[3] == "0":
        raise DatasetError(f"{text!r} is not a slice: write it like 0:5, 10: or ::2")
    start, stop, step = (int(part) if part else None for part in match.groups())
    return slice(start, stop, step)
