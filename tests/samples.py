"""Choose a sample of many similar cases for `make test`, the same one on every commit.

The other cases are marked `full`, and `make test-all` runs them too.
"""

import itertools
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import pytest

T = TypeVar("T")

TURNS = 8

NUMBER = 0
"""The number of the sample, on which the choice depends."""


@dataclass(frozen=True)
class Share:
    """One of `count` equal shares of a list of cases."""

    index: int
    count: int

    def __str__(self) -> str:
        return f"share {self.index + 1} of {self.count}"

    @property
    def marks(self) -> list[pytest.MarkDecorator]:
        """Return the mark `full`, or no mark if the share belongs to this sample."""
        return [] if NUMBER % self.count == self.index else [pytest.mark.full]

    def of(self, cases: Sequence[T]) -> Sequence[T]:
        """Return every `count`-th case, beginning at `index`."""
        return cases[self.index :: self.count]


def has_turn(turn: int) -> bool:
    """Return True if this sample has the files of a turn, counted from 0.

    The longest files take turns, so that no sample has several of them. The number is hashed, so
    that each share of such a file has a turn.
    """
    return zlib.crc32(str(NUMBER).encode()) % TURNS == turn


def shares(count: int) -> list[Share]:
    """Return all shares; one of them belongs to this sample."""
    return [Share(index, count) for index in range(count)]


def one_in(every: int, cases: Mapping[str, Sequence[Any]]) -> list[Any]:
    """Return parameter sets with the ids and values of `cases`, one in `every` in the sample."""
    return [
        pytest.param(*values, id=name, marks=Share(index % every, every).marks)
        for index, (name, values) in enumerate(cases.items())
    ]


def of_file(path: str, count: int) -> Iterator[Share]:
    """Yield the share of each test of a file, one in `count` of which is in the sample.

    The files are out of step, so that a sample has as many of their first tests as of their last.
    """
    first = zlib.crc32(path.encode())
    return (Share((first + index) % count, count) for index in itertools.count())


def host_and_docker(cases: Mapping[str, Sequence[Any]], *, every: int) -> list[Any]:
    """Return parameter sets that begin with the kind of workspace: `host`, or `docker`.

    One case in three is in the sample on the host, and one in `every` in containers.
    """
    on_host = [
        pytest.param("host", *values, id=f"host-{name}", marks=Share(index % 3, 3).marks)
        for index, (name, values) in enumerate(cases.items())
    ]
    in_docker = [
        pytest.param(
            "docker",
            *values,
            id=f"docker-{name}",
            marks=[pytest.mark.docker, *Share(index % every, every).marks],
        )
        for index, (name, values) in enumerate(cases.items())
    ]
    return [*on_host, *in_docker]


def contained(items: Sequence[pytest.Item]) -> list[pytest.Item]:
    """Return the cases marked `short` of the tests whose longer `full` cases are selected, too."""
    longer = {_test_of(item) for item in items if _has(item, "full") and not _has(item, "short")}
    return [item for item in items if _has(item, "short") and _test_of(item) in longer]


def _has(item: pytest.Item, mark: str) -> bool:
    return item.get_closest_marker(mark) is not None


def _test_of(item: pytest.Item) -> str:
    """Return the id of the test without its parameters."""
    return item.nodeid.partition("[")[0]
