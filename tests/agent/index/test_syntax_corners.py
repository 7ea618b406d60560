"""Single files: every kind of definition, and barely valid Python."""

import resource
import time

import pytest

from agent.index.symbols import SymbolIndex


def index(text: str) -> SymbolIndex:
    return SymbolIndex({"m.py": text})


def defined(text: str) -> list[tuple[str, str, int, int]]:
    """Return the name, kind, first and last line of every definition except the module."""
    return [
        (found.qualified, found.kind, found.start, found.end)
        for found in index(text).list_definitions("m.py")
        if found.kind != "module"
    ]


def test_every_kind_of_definition() -> None:
    """Nested, asynchronous, decorated and conditional definitions are found with their lines."""
    text = """\
import functools
LIMIT = 3
first, (second, *rest) = 1, (2, 3)
size: int = 4
@functools.cache
def plain():
    def nested():
        class Local:
            pass
async def waits(): pass
class Outer(Base):
    attribute = 1
    declared: int
    @property
    def value(self):
        return 1
    @value.setter
    def value(self, new): pass
    class Inner:
        async def deep(self): pass
if LIMIT:
    def either(): return 1
else:
    def either(): return 2
try:
    def attempt(): pass
except ImportError:
    attempt = None
"""
    assert defined(text) == [
        ("LIMIT", "variable", 2, 2),
        ("first", "variable", 3, 3),
        ("second", "variable", 3, 3),
        ("rest", "variable", 3, 3),
        ("size", "variable", 4, 4),
        ("plain", "function", 5, 9),
        ("plain.nested", "function", 7, 9),
        ("plain.nested.Local", "class", 8, 9),
        ("waits", "function", 10, 10),
        ("Outer", "class", 11, 20),
        ("Outer.attribute", "variable", 12, 12),
        ("Outer.declared", "variable", 13, 13),
        ("Outer.value", "method", 14, 16),
        ("Outer.value", "method", 17, 18),
        ("Outer.Inner", "class", 19, 20),
        ("Outer.Inner.deep", "method", 20, 20),
        ("either", "function", 22, 22),
        ("either", "function", 24, 24),
        ("attempt", "function", 26, 26),
        ("attempt", "variable", 28, 28),
    ]


@pytest.mark.parametrize(
    ("source", "signature"),
    [
        ("def f(a, b=1): pass", "def f(a, b=1)"),
        ("def f(a: int) -> str:\n    return ''", "def f(a: int) -> str"),
        ("def f(\n    a,  # the first: one\n    b=(1, 2),\n):\n    pass", "def f(a, b=(1, 2))"),
        ("async def f(*, key): ...", "async def f(*, key)"),
        ("@property\n@x.y\n@z(1)\ndef f(self): ...", "@property @x.y def f(self)"),
        ("class C(A, metaclass=M): pass", "class C(A, metaclass=M)"),
        ("class C:\n    x = 1", "class C"),
        ("X = compute(\n    1,\n)", "X = compute("),
    ],
)
def test_signatures_are_one_line(source: str, signature: str) -> None:
    """A signature is the header in one line, preceded by simple decorators."""
    assert index(source).list_definitions("m.py")[1].signature == signature


def test_the_first_line_of_docstrings() -> None:
    """The first docstring line of a module, class or function is found."""
    text = '''\
"""Module.

More."""
class C:
    """
    Class.
    """
def f():
    "Function."
'''
    assert [found.doc for found in index(text).list_definitions("m.py")] == [
        "Module.",
        "Class.",
        "Function.",
    ]


HOSTILE = {
    "nested": ("a.py", "x = " + "(" * 100_000),
    "unary": ("a.py", "x = " + "-" * 500_000 + "1"),
    "sum": ("a.py", "x = " + " + ".join(["y"] * 100_000)),
    "chain": ("a.js", "x" + ".y" * 200_000 + "()"),
    "errors": ("a.js", "|!" * 200_000),
    "type arguments": ("a.java", "a<" * 200_000),
    "generics": ("a.ts", "A<B," * 100_000),
    "open comments": ("a.js", "->\nelse switch ^" + "\n/*let a=^" * 8_000),
    "errors in brackets": ("a.rs", 'impl a-",/class a~a.b.a(' + "=-/class a~a.b.a(" * 4_000),
    "comments": ("a.go", "// x\n" * 100_000 + "func f() {}\n"),
    "one line": ("a.js", "function f(a){return g(a)};" * 30_000),
    "Python 2": ("a.py", "print 'python 2'\nexcept E, e:\n"),
    "bytes": ("a.rs", "\0\ufffd\ud800" * 10_000),
    "uses of a member": ("a.rs", "use a::{" * 20_000),
}


@pytest.mark.parametrize(
    ("path", "text"),
    [
        pytest.param(*file, id=name, marks=pytest.mark.full if name == "one line" else [])
        for name, file in HOSTILE.items()
    ],
)
def test_no_file_takes_long_or_hides_others(path: str, text: str) -> None:
    """Text that no compiler reads is indexed in bounded time and memory, and so is the rest."""
    begun, held = time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    both = SymbolIndex({path: text, "good.py": "def good(): pass\ngood()\n"})
    for symbol in ("x", "y", "f", "good.good"):
        both.callers(symbol)
        both.callees(symbol)
    assert both.imports(path) == []
    assert [found.path for found in both.definitions("good.good")] == ["good.py"]
    assert time.process_time() - begun < 20
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - held < 400 * 2**10


@pytest.mark.parametrize(
    "text",
    [
        "\ufeffdef f(): pass\n",
        "# -*- coding: latin-1 -*-\nx = 'caf\ufffd'\ndef f(): pass\n",
        "x = 1\r\n\r\ndef f():\r\n    pass\r\n",
        "x = '''\x0c\u2028'''\x0c\ndef f(): pass\n",
        "x = '\\d'; y = 1 is 1\ndef f(): pass\n",
        "def f(): pass",
        "match command:\n    case [x, *rest] if (n := x): f()\n    case {'a': a, **b}: a()\n"
        "def f(): pass\n",
        "def f(a, /, b, *c, d=1, **e): return lambda x, *y, z=f: (x, y, z)\n",
        "def f():\n    global g\n    g = 1\n    del g\n",
    ],
)
@pytest.mark.filterwarnings("error")
def test_odd_text_that_python_reads(text: str) -> None:
    """Byte order marks, encodings, line ends and new syntax are read without a warning."""
    (found,) = index(text).definitions("f")
    before = text.replace("\r\n", "\n").partition("def f")[0]
    assert found.line == 1 + before.count("\n")


def test_an_empty_file_and_no_file() -> None:
    """An empty file has only its module, and an index without files has no definitions."""
    assert [found.kind for found in index("").list_definitions("m.py")] == ["module"]
    assert SymbolIndex({}).definitions("x") == []
    assert SymbolIndex({"a.rb": "def f() end"}).paths == []
