"""Names that a piece of Python reads and writes."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.graph import get_reads, get_writes, infer_edges
from agent.graph.names import NameReader

EXAMPLES = [
    ("x = 10; y = x + 5", "", "x y"),
    ("y = x + 5; x = 10", "x", "x y"),
    ("x += 1", "x", "x"),
    ("xs.append(1)", "xs", "xs"),
    ("d['k'] = v", "d v", "d"),
    ("a.b.c = 1", "a", "a"),
    ("del x", "x", "x"),
    ("print(len(xs))", "xs", ""),
    ("total = sum(x * k for x in xs)", "xs k", "total"),
    ("import os.path as p\np.join('a', b)", "b", "p"),
    ("import numpy\na = numpy.zeros(3)", "", "numpy a"),
    ("from m import a, b as c\nc(a)", "", "a c"),
    ("def f(a, b=d): return a + g", "d", "f"),
    ("def f(): return g\nf()", "g", "f"),
    ("def f(): return g\ng = 1\nf()", "", "f g"),
    ("def f():\n  global n\n  n = 1\nf()", "", "f n"),
    ("def f():\n  xs.append(1)\nf()", "xs", "f xs"),
    ("def f():\n  def g(): return h\n  return g\nk = f()\nk()", "h", "f k"),
    ("if c: x = 1\ny = x", "c x", "x y"),
    ("if c: x = 1\nelse: x = 2\ny = x", "c", "x y"),
    ("for i in xs: t = i\nu = t", "xs t", "i t u"),
    ("try: x = f()\nexcept E: x = None\ny = x", "f E", "x y"),
    ("try: x = f()\nexcept E: pass\ny = x", "f E x", "x y"),
    ("with open(p) as f: t = f.read()\nprint(t)", "p", "f t"),
    ("with suppress(E): t = f()\nprint(t)", "suppress E f t", "t"),
    ("b = a\nb.append(1)", "a", "a b"),
    ("for row in rows: row.append(1)", "rows", "row rows"),
    ("x = 1\ny = lambda: x + z\n", "z", "x y"),
    ("class C(B):\n  n = k\n  def m(self): return w\n", "B k", "C"),
    ("class C:\n  def m(self): return w\nC().m()", "w", "C"),
    ("match v:\n  case [a, *rest]: t = a\n  case {'k': P(n=q)}: t = q\n", "v P", "a rest q t"),
    ("(n := m) + n", "m", "n"),
    ("x: int = y", "y", "x"),
    ("f'{a:{b}}'", "a b", ""),
]


@pytest.mark.parametrize(("source", "reads", "writes"), EXAMPLES, ids=[e[0] for e in EXAMPLES])
def test_names_in_the_order_in_which_they_run(source: str, reads: str, writes: str) -> None:
    """Reads are the names whose value from before may be used. Writes include changes in place."""
    assert get_reads(source) == set(reads.split())
    assert get_writes(source) == set(writes.split())


def test_modules_are_named_and_exec_hides_everything() -> None:
    """Imports say which modules they load; `exec` and a star hide which names are used."""
    assert NameReader().read("import a.b, c as d\nfrom e.f import g").modules == {"a.b", "c", "e.f"}
    assert NameReader().read("exec(code)").is_opaque
    assert NameReader().read("from m import *").is_opaque


@pytest.mark.parametrize(
    "source",
    [
        "xs = ys\nxs = xs",
        "xs = ys\nxs, zs = [], xs\nxs = zs",
        "xs = ys\nif m: xs = []",
        "xs = ys\nfor n in zs: xs = []",
        "xs = ys\ntry: xs = f()\nexcept ValueError: pass",
        "while m:\n  xs = zs\n  zs = ys",
        "def f():\n  one = ys\n  one.append(1)\nxs = f()",
        "def f(): ys.append(1)\nif m:\n  def f(): return 1\nxs = [f()]",
    ],
)
def test_a_change_reaches_all_that_may_be_the_same(source: str) -> None:
    """A name that may not be bound anew, or bound to its own value, shares what it shared."""
    assert "ys" in get_writes(f"{source}\nxs.append(1)")


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
CELLS = st.lists(
    st.lists(STATEMENTS, min_size=1, max_size=3).map("\n".join), min_size=1, max_size=5
)


START = "xs, ys, zs, m, n = [1], [2], [3], 1, 2\ndef f(): return 1\ndef g(): return 2"


def _run(cells: list[str], without: str = "") -> dict[str, Any] | None:
    """Return the variables after the cells, the last of which runs without one of them.

    Return None if a cell fails.
    """
    values: dict[str, Any] = {}
    try:
        for number, cell in enumerate([START, *cells]):
            if number == len(cells):
                values.pop(without, None)
            exec(cell, values)
    except (RecursionError, NameError, TypeError):
        return None
    shown = {name: values.get(name) for name in (*LISTS, *NUMBERS)}
    return shown | {name: getattr(values.get(name), "__code__", None) for name in FUNCTIONS}


@given(CELLS)
@settings(max_examples=60)
def test_what_a_run_reads_and_changes_was_seen_in_the_text(cells: list[str]) -> None:
    """A run changes no variable but those of the text, and needs no other, through any alias."""
    reader = NameReader()
    for cell in [START, *cells]:
        names = reader.read(cell)
    before, after = _run(cells[:-1]), _run(cells)
    if before is None or after is None:
        return
    assert {name for name in before if before[name] != after[name]} <= names.writes
    for name in before.keys() - names.reads:
        alone = _run(cells, without=name)
        assert alone is not None, f"{name} was needed"
        kept = names.writes if name in names.kept else names.writes | {name}
        assert {each: alone[each] for each in kept - {name}} == {
            each: after[each] for each in kept - {name}
        }


def test_edges_follow_the_last_writer() -> None:
    """A piece depends on the last writer of what it reads, on imports and on closures."""
    made = infer_edges(
        {
            "a": "import json\nxs = [1]\nk = 2",
            "b": "def f(v): return json.dumps(v * k)",
            "c": "xs.append(3)",
            "d": "print(f(xs))",
            "e": "k = 5",
            "f": "print(f(1))",
        }
    )
    assert made.edges == [
        ("a", "c", {"xs"}),
        ("a", "d", {"json", "k"}),
        ("b", "d", {"f"}),
        ("c", "d", {"xs"}),
        ("a", "f", {"json"}),
        ("b", "f", {"f"}),
        ("e", "f", {"k"}),
    ]


def test_a_piece_that_may_keep_a_variable_depends_on_its_writer() -> None:
    """After `if c: x = 2`, x may still be that of before."""
    made = infer_edges({"a": "x = 1; c = 0", "b": "if c: x = 2", "d": "print(x)"})
    assert made.edges == [("a", "b", {"c", "x"}), ("b", "d", {"x"})]


def test_everything_depends_on_a_piece_that_hides_its_names() -> None:
    """After `exec`, every variable may be another."""
    made = infer_edges({"a": "x = 1", "b": "exec(text)", "c": "print(x)", "d": "y = 1"})
    assert made.edges == [("a", "b", {"x"}), ("b", "c", {"x"}), ("b", "d", frozenset())]
