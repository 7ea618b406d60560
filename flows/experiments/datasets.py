"""The instances that a command or an experiment works on."""

from eval import instances, selection
from eval.selection import Selection
from eval.types import Instance
from flows.display.terminal import say_once


def select(dataset: str, split: str, wanted: Selection) -> list[Instance]:
    """Return the selected instances of a dataset. Say once which rows of it cannot be used.

    Raises:
        DatasetError: the dataset or the selection cannot be used, or it names an unusable row.
    """
    found = instances.read(dataset, split)
    chosen = selection.select(found.instances, wanted, found.unusable)
    if found.unusable:
        say_once(found.warning)  # a command checks a dataset before its flow does
    return chosen
