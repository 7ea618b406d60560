"""Readers: each turns one kind of foreign task into an `Instance`, or refuses it in one line.

`swebench` reads rows in the form of swebench 5, `commands` rows with own commands, and
`harbor` folders with a task.toml. `read_row` chooses the reader of a row.
"""

from collections.abc import Mapping
from typing import Any

from eval.readers import commands, swebench
from eval.types import Instance


def read_row(row: Any, *, where: str = "") -> Instance:
    """Return a row of any published form as an instance. `where` names the row in messages.

    Raises:
        DatasetError: the row has no form that can be used. The message says what it is.
    """
    if isinstance(row, Mapping) and (form := commands.recognize(row)):
        return commands.parse(row, form, where=where)
    return swebench.parse(row, where=where)
