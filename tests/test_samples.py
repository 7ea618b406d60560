"""Samples are the same on every commit, and together cover all cases."""

from itertools import islice
from types import SimpleNamespace
from typing import cast

import pytest

from tests import samples

CASES = {f"case {number}": (number,) for number in range(10)}


def sampled(parameters: list[pytest.param]) -> set[object]:  # type: ignore[valid-type]
    """Return the first values of the parameter sets that `make test` runs."""
    return {
        each.values[0] for each in parameters if "full" not in {mark.name for mark in each.marks}
    }


def test_all_samples_together_are_all_cases(monkeypatch: pytest.MonkeyPatch) -> None:
    """Samples with consecutive numbers cover every case exactly once."""
    seen = []
    for number in range(3):
        monkeypatch.setattr(samples, "NUMBER", number)
        seen.append(sampled(samples.one_in(3, CASES)))
    assert set.union(*seen) == set(range(10))
    assert sum(map(len, seen)) == 10


def test_cases_on_the_host_and_in_containers_are_sampled(monkeypatch: pytest.MonkeyPatch) -> None:
    """One case in three runs on the host, and one in `every` in containers."""
    monkeypatch.setattr(samples, "NUMBER", 1)
    parameters = samples.host_and_docker(CASES, every=5)
    running = [each for each in parameters if "full" not in {mark.name for mark in each.marks}]
    assert [each.values for each in running] == [
        *(("host", number) for number in (1, 4, 7)),
        ("docker", 1),
        ("docker", 6),
    ]


def test_each_sample_has_as_many_tests_of_a_file() -> None:
    """The tests of a file take turns, and one test alone is not in the same sample everywhere."""
    indices = [share.index for share in islice(samples.of_file("tests/test_a.py", 3), 30)]
    assert set(indices[:3]) == {0, 1, 2}
    assert indices == indices[:3] * 10
    alone = {next(samples.of_file(f"tests/test_{number}.py", 3)).index for number in range(30)}
    assert alone == {0, 1, 2}


def test_shares_are_disjoint() -> None:
    """Each case is in exactly one share."""
    cases = list(range(11))
    found = [case for share in samples.shares(4) for case in share.of(cases)]
    assert sorted(found) == cases


def item(nodeid: str, *marks: str) -> pytest.Item:
    """Return a collected test with marks; it has only what `samples` reads."""
    found = {name: getattr(pytest.mark, name).mark for name in marks}
    return cast(pytest.Item, SimpleNamespace(nodeid=nodeid, get_closest_marker=found.get))


def test_short_forms_run_where_no_longer_case_does() -> None:
    """A short case is left out only beside a longer case of the same test."""
    short = [item("a.py::test[1-2]", "short"), item("a.py::test[1-3]", "short", "full")]
    other = item("a.py::test_other[1]", "short", "full")
    long = item("a.py::test[9-2]", "full")
    assert samples.contained([*short, other]) == []
    assert samples.contained([*short, other, long]) == short
