"""Random notebooks, compared with one interpreter that runs all their cells in order."""

import asyncio
import contextlib
import io
import shutil
import tempfile
from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from agent.cells.notebook import Notebook
from agent.cells.running import needs
from tests.agent.cells.conftest import on_host
from tests.agent.cells.in_process import InProcess

pytestmark = pytest.mark.slow

T = TypeVar("T")

# A grammar of small programs over three lists, two numbers and two functions.

LISTS, NUMBERS, FUNCTIONS = ("xs", "ys", "zs"), ("m", "n"), ("f", "g")
lists, numbers = st.sampled_from(LISTS), st.sampled_from(NUMBERS)
functions, digits = st.sampled_from(FUNCTIONS), st.integers(0, 3)

SIMPLE = st.one_of(
    st.builds("{0}.append({1})".format, lists, numbers),
    st.builds("{0} = {1}".format, lists, lists),
    st.builds("{0} = list({1})".format, lists, lists),
    st.builds("{0} = [{1}]".format, lists, digits),
    st.builds("{0} += [{1}]".format, lists, digits),
    st.builds("{0}[:1] = [{1}]".format, lists, numbers),
    st.builds("{0} = len({1})".format, numbers, lists),
    st.builds("{0} += {1}".format, numbers, numbers),
    st.builds("{0} = {1}()".format, numbers, functions),
    st.builds("{0} = {1}".format, functions, functions),
    st.builds("{0} = lambda: {1}".format, functions, numbers),
    st.builds("{0} = sum(i + {1} for i in {2})".format, numbers, numbers, lists),
    st.builds("del {0}; {0} = {1}".format, numbers, digits),
)


def _block(header: str, body: list[str]) -> str:
    return header + "".join(f"\n  {line}" for line in body)


BODIES = st.lists(SIMPLE, min_size=1, max_size=2)
STATEMENTS = st.one_of(
    SIMPLE,
    st.builds(lambda n, body: _block(f"if {n} % 2:", body), numbers, BODIES),
    st.builds(
        lambda n, xs, body: _block(f"for {n} in list({xs})[:2]:", body), numbers, lists, BODIES
    ),
    st.builds(
        lambda f, body: _block(f"def {f}():", ["global m, n, xs, ys, zs", *body, "return 1"]),
        functions,
        st.lists(SIMPLE.filter(lambda line: "()" not in line and "del" not in line), max_size=2),
    ),
    st.builds(lambda body: _block("try:", body) + "\nexcept ZeroDivisionError:\n  n = 0", BODIES),
)

START = """\
xs, ys, zs, m, n = [1], [2], [3], 1, 2
def f(): return 1
def g(): return 2
def counter():
    count = 0
    def step():
        nonlocal count
        count += 1
        return count
    return step
step = also = counter()
class Box:
    size = 1
    def __init__(self, held): self.held = held
    def grow(self): return self.size + len(self.held) + n
box = Box(xs)
rows = (each * m for each in (4, 5, 6, 7))
"""

OTHERS = st.one_of(
    st.builds("print({0}, {1})".format, lists, numbers),
    st.builds("print(xs is {0}, ys is {0})".format, lists),
    st.builds("del {0}".format, st.sampled_from(["xs", "m", "box", "f"])),
    st.builds("import math as {0}; print({0}.pi)".format, numbers),
    st.builds("from math import pi as {0}".format, numbers),
    st.sampled_from(
        [
            "print(step(), also())",
            "also = counter()",
            "also = step",
            "Box.size = n",
            "class Box(Box):\n  def grow(self): return -super().grow()",
            "print(box.grow())",
            "print(isinstance(box, Box))",
            "box.held.append(7)",
            "print(sorted({str(each) for each in xs}))",
            "class Inner:\n  held = xs\n  first = m",
            "print(eval('m + n'))",
            "def h():\n  return [eval('m'), zs]",
            "print(h())",
            "print(next(rows, None))",
            "rows = (each + n for each in range(m, m + 9))",
            "again = rows",
            "print([next(each, 0) for each in (rows, again)])",
            "def rest(): return list(rows)",
            "print(rest())",
        ]
    ),
    st.builds("box = Box({0})".format, lists),
    st.builds("print({0}())".format, functions),
    st.builds(lambda body: "try:\n  " + "\n  ".join(body) + "\nexcept NameError: n = 0", BODIES),
)
CELL = st.lists(st.one_of(STATEMENTS, SIMPLE, OTHERS, OTHERS), min_size=1, max_size=4).map(
    "\n".join
)
NOTEBOOKS = st.lists(CELL, min_size=1, max_size=6)
QUICK = settings(
    max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow], database=None
)

Ended = tuple[str, str]
"""The output of a cell and the type of its error."""


def in_one_interpreter(cells: list[str]) -> list[Ended]:
    """Return the ends of cells that share their global names, as in a live notebook."""
    names: dict[str, Any] = {"__name__": "__main__"}
    ended = []
    for number, code in enumerate(cells, 1):
        kind = ""
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            try:
                exec(compile(code, f"<cell {number}>", "exec"), names)
            except RecursionError:
                assume(False)  # what it did depends on the depth of the stack
            except Exception as error:
                kind = type(error).__name__
        ended.append((printed.getvalue(), kind))
    return ended


def ended(notebook: Notebook) -> list[Ended]:
    """Return the ends of the last runs of all cells."""
    records = [cell.record for cell in notebook.cells]
    return [(r.output, r.error.kind if r.error else "") for r in records]


def needed(notebook: Notebook, number: int) -> set[int]:
    """Return a cell and those that wrote what it read, or what its text may read."""
    found = {number}
    for cell in reversed(notebook.cells):
        if cell.number in found:
            names = {*cell.record.reads, *needs(cell.code)}
            writers = (notebook.writer(name, cell) for name in names)
            found |= {writer.number for writer in writers if writer}
    return found


def dependents(notebook: Notebook, number: int) -> set[int]:
    """Return a cell and those that read what it wrote, directly or through others."""
    found, writers = {number}, dict[str, int]()
    for cell in notebook.cells:
        if any(writers.get(name) in found for name in cell.record.reads):
            found.add(cell.number)
        writers |= dict.fromkeys(cell.record.writes, cell.number)
    return found


@contextlib.contextmanager
def kernel() -> Iterator[InProcess]:
    """Yield a kernel with an empty store."""
    folder = Path(tempfile.mkdtemp())
    yield InProcess(folder)
    shutil.rmtree(folder, ignore_errors=True)


async def filled(notebook: Notebook, cells: list[str]) -> None:
    """Run cells."""
    for code in cells:
        await notebook.run(None, code)  # type: ignore[arg-type]


async def replayed(notebook: Notebook) -> None:
    """Replay until nothing is stale. A failed cell ends one replay."""
    while notebook.stale:
        await notebook.replay(None, None)  # type: ignore[arg-type]


def finished(work: Coroutine[Any, Any, T]) -> T:
    """Return the result of work that waits for nothing."""
    return asyncio.run(work)


@QUICK
@given(NOTEBOOKS)
def test_cells_do_what_they_do_in_one_interpreter(cells: list[str]) -> None:
    """Aliases, closures, classes, imports and deletions are those of a live notebook."""
    wanted = in_one_interpreter([START, *cells])
    with kernel() as used:
        notebook = Notebook(used)
        finished(filled(notebook, [START, *cells]))
        assert ended(notebook) == wanted


@QUICK
@given(NOTEBOOKS, CELL, st.data())
def test_a_replay_equals_running_everything(cells: list[str], code: str, data: Any) -> None:
    """After an edit, exactly the cells that depend on it are stale, and their replay is enough."""
    cells = [START, *cells]
    place = data.draw(st.integers(1, len(cells) - 1))
    assume(cells[place] != code)
    in_one_interpreter(cells)
    wanted = in_one_interpreter([*cells[:place], code, *cells[place + 1 :]])
    with kernel() as used:
        notebook = Notebook(used)
        finished(filled(notebook, cells))
        reachable = dependents(notebook, place + 1)
        assert {cell.number for cell in notebook.edit(place + 1, code)} == reachable
        used.ran.clear()
        finished(replayed(notebook))
        assert ended(notebook) == wanted
        assert reachable <= set(used.ran)
        assert len(used.ran) == len(set(used.ran))


def test_a_cell_that_begins_to_use_up_a_generator_makes_later_ones_stale() -> None:
    """The place of a generator tells nothing about what is left of it."""
    edited = [START, "print(next(rows))", "print(next(rows))"]
    with kernel() as used:
        notebook = Notebook(used)
        finished(filled(notebook, [START, "print(m)", "print(next(rows))"]))
        notebook.edit(2, edited[1])
        finished(replayed(notebook))
        assert ended(notebook) == in_one_interpreter(edited) == [("", ""), ("4\n", ""), ("5\n", "")]


def test_a_cell_that_binds_an_equal_value_writes_it() -> None:
    """The value is still there after an edit of the cell that wrote it first."""
    edited = [START, "del m", "m = 5", "m += m\nprint(m)"]
    with kernel() as used:
        notebook = Notebook(used)
        finished(filled(notebook, [START, "m = 5", *edited[2:]]))
        notebook.edit(2, edited[1])
        finished(replayed(notebook))
        assert ended(notebook) == in_one_interpreter(edited)


def test_a_class_is_the_same_after_its_cell_ran_again_for_a_generator() -> None:
    """Two cells run again for the third one, and the class of the box is still its class."""
    cells = [
        START,
        "box = Box(xs)\nprint(next(rows))",
        "xs.append(m)\nprint(next(rows))",
        "print(isinstance(box, Box))",
    ]
    with kernel() as used:
        notebook = Notebook(used)
        finished(filled(notebook, cells))
        assert [output for output, _ in ended(notebook)[1:]] == ["4\n", "5\n", "True\n"]


@QUICK
@given(NOTEBOOKS, st.data())
def test_a_lost_store_is_filled_by_what_is_needed(cells: list[str], data: Any) -> None:
    """Without a store, a cell has the same result, after runs of cells that it depends on."""
    wanted = in_one_interpreter([START, *cells, "print(m, xs)"])
    with kernel() as used:
        notebook = Notebook(used)
        finished(filled(notebook, [START, *cells]))
        shutil.rmtree(used.folder)
        used.ran.clear()
        finished(filled(notebook, ["print(m, xs)"]))
        assert ended(notebook) == wanted
        assert set(used.ran) <= needed(notebook, len(notebook.cells))


@settings(max_examples=10, deadline=None, suppress_health_check=list(HealthCheck), database=None)
@given(NOTEBOOKS)
def test_interpreters_of_a_workspace_do_the_same(cells: list[str]) -> None:
    """Processes of a workspace leave what the program leaves in this process."""
    wanted = in_one_interpreter([START, *cells])

    async def run() -> list[Ended]:
        async with on_host({"a.txt": ""}) as talk:
            for code in [START, *cells]:
                await talk.use("cell_run", code=code)
            return ended(talk.notebook)

    # The value of a last expression is shown, and these cells print all that they show.
    assert finished(run()) == wanted
