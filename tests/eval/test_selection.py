"""A selection yields the same instances, in the dataset's order, on every call."""

from collections.abc import Callable

import pytest
from pydantic import ValidationError

from eval.errors import DatasetError
from eval.selection import Selection, select
from eval.types import Instance


@pytest.fixture(scope="module")
def lite(make_instance: Callable[..., Instance]) -> list[Instance]:
    repos = ("django__django", "sympy__sympy")
    return [make_instance(instance_id=f"{repos[n % 2]}-{n}") for n in range(20)]


def ids(instances: list[Instance]) -> list[str]:
    return [instance.instance_id for instance in instances]


def test_ids_come_in_the_order_of_the_dataset(lite: list[Instance]) -> None:
    """Selected ids keep the order of the dataset, whatever their order in the selection."""
    selection = Selection(ids=["sympy__sympy-3", "django__django-0"])
    assert ids(select(lite, selection)) == ["django__django-0", "sympy__sympy-3"]


def test_filters_apply_one_after_the_other(lite: list[Instance]) -> None:
    """The slice applies to the instances that the regular expression selected."""
    selection = Selection(regex="^django", slice="1:3")
    assert ids(select(lite, selection)) == ["django__django-2", "django__django-4"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [("0:2", [0, 1]), ("18:", [18, 19]), ("-1:", [19]), ("::10", [0, 10]), (" 3 : 4 ", [3])],
)
def test_a_slice_is_written_as_in_python(
    lite: list[Instance], text: str, expected: list[int]
) -> None:
    """A slice is written as in Python: any part may be omitted, and bounds may be negative."""
    assert select(lite, Selection(slice=text)) == [lite[n] for n in expected]


def test_a_sample_depends_on_its_seed_alone(lite: list[Instance]) -> None:
    """The same seed draws the same instances, whatever the order of the dataset."""
    drawn = select(lite, Selection(sample=5, seed=1))
    assert len(drawn) == 5
    assert drawn == [instance for instance in lite if instance in drawn]
    assert set(ids(select(lite[::-1], Selection(sample=5, seed=1)))) == set(ids(drawn))
    assert select(lite, Selection(sample=5, seed=2)) != drawn


@pytest.mark.parametrize(
    ("selection", "message"),
    [
        ({"ids": ["django__djanga-2"]}, "django__djanga-2; did you mean django__django-2"),
        ({"regex": "^flask"}, "regex '\\^flask'.* leaves no instance"),
        ({"slice": "50:"}, "leaves no instance"),
        ({"sample": 21}, "a sample of 21 exceeds the number of instances, 20"),
    ],
)
def test_a_selection_of_nothing_is_refused(
    lite: list[Instance], selection: dict[str, object], message: str
) -> None:
    """A selection of unknown or no instances, or of fewer than requested, is refused."""
    with pytest.raises(DatasetError, match=message):
        select(lite, Selection.model_validate(selection))


@pytest.mark.parametrize(
    ("field", "text"),
    [("regex", "("), ("slice", "five"), ("slice", "1"), ("slice", "::0"), ("slice", "::-1")],
)
def test_an_invalid_filter_is_one_line(field: str, text: str) -> None:
    """An invalid filter fails in one line when the selection is declared."""
    with pytest.raises(DatasetError) as failure:
        Selection.model_validate({field: text})
    assert repr(text) in str(failure.value)
    assert "\n" not in str(failure.value)


def test_unknown_keys_are_refused() -> None:
    """A misspelled filter is an error instead of selecting everything."""
    with pytest.raises(ValidationError, match="instance_ids"):
        Selection.model_validate({"instance_ids": ["a"]})
