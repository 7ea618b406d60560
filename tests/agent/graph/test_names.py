"""Names in a piece of Python, from its text."""

import pytest

from agent.graph.names import get_reads, get_writes, infer_edges


@pytest.mark.parametrize(
    ("source", "reads", "writes"),
    [
        ("x = 5\ny = x + 3", "", "x y"),
        ("z = y * 2", "y", "z"),
        ("total += n", "total n", "total"),
        ("xs.append(x)", "xs x", "xs"),
        ("d['a'].b = c", "d c", "d"),
        ("x = x + 1", "x", "x"),
        ("def f(a, b=c):\n    d = a\n    return d + e", "c e", "f"),
        ("def f():\n    global n\n    n = 1", "", "f n"),
        ("ys = [x * k for x in xs if x]", "xs k", "ys"),
        ("class A(B):\n    n = m", "B m", "A"),
        ("import os.path as p, sys", "", "p sys"),
        ("for i in rows:\n    last = i\nprint(last)", "rows last", "i last"),
        ("if a:\n    b = 1\nelse:\n    b = 2\nc = b", "a", "b c"),
        ("try:\n    v = f()\nexcept ValueError as e:\n    print(e)", "f", "v"),
        ("with open(name) as file:\n    text = file.read()", "name", "file text"),
        ("del x", "", "x"),
        ("print((n := len(xs)) + n)", "xs", "n"),
    ],
)
def test_reads_are_from_before_and_writes_remain(source: str, reads: str, writes: str) -> None:
    """A name that the piece binds itself is not read; names of inner scopes stay inside."""
    assert get_reads(source) == set(reads.split())
    assert get_writes(source) == set(writes.split())


def test_edges_lead_from_the_last_writer() -> None:
    """A step uses a variable of the step that wrote it last."""
    steps = [("a", "x = 1"), ("b", "x = 2"), ("c", "y = x"), ("d", "z = x + y")]
    assert infer_edges(steps) == [
        ("b", "c", frozenset({"x"})),
        ("b", "d", frozenset({"x"})),
        ("c", "d", frozenset({"y"})),
    ]
