"""Definitions, callers and callees across the files of a repository."""

import random
from collections.abc import Mapping

import pytest

from agent.index.symbols import SymbolIndex

LIBRARY = {
    "src/store/__init__.py": (
        "from .reader import Reader, load as read\n"
        "from .formats import *\n"
        "try:\n"
        "    from ._fast import parse\n"
        "except ImportError:\n"
        "    from .slow import parse\n"
    ),
    "src/store/base.py": """\
from abc import ABC, abstractmethod


class Base(ABC):
    def __init__(self, path):
        self.path = path

    def run(self):
        self.prepare()
        return self.read()

    def prepare(self):
        pass

    @abstractmethod
    def read(self): ...
""",
    "src/store/reader.py": """\
from __future__ import annotations

import os.path
from typing import Optional, TYPE_CHECKING

from . import slow
from .base import Base
from .formats import Csv as Format

if TYPE_CHECKING:
    from store.cache import Cache


class Reader(Base):
    format = Format()
    cache: Cache

    def __init__(self, path, cache: Optional["Cache"] = None):
        super().__init__(path)
        self.cache = cache
        self.lines = []

    @property
    def name(self) -> str:
        return os.path.basename(self.path)

    @classmethod
    def open(cls, path) -> Reader:
        return cls(path)

    @staticmethod
    def check(path):
        return slow.parse(path)

    def read(self):
        self.lines.append(self.name)
        self.check(self.path)
        self.cache.put(self.path)
        return [self._one(line) for line in self.lines]

    def _one(self, line):
        return self.format.decode(line)


def load(path, then=None):
    def inner():
        return Reader.open(path).run()

    return inner()
""",
    "src/store/cache.py": """\
class Cache:
    def put(self, key): ...
    def get(self, key): ...
""",
    "src/store/formats.py": """\
__all__ = ["Csv", "join"]


class Csv:
    def decode(self, line):
        return line.split(",")


def join(parts):
    return ",".join(parts)


def _hidden(): ...
""",
    "src/store/slow.py": "def parse(path):\n    return path\n",
    "src/store/cli.py": """\
import store
import store.reader as r
from store import read, parse, join
from store.cache import Cache as Memory


def main(path, reader: r.Reader, unknown, cache: Memory | None = None):
    read(path)
    store.reader.load(path)
    parse(path)
    join([])
    reader.read()
    cache.get(path)
    unknown.read()
    print(unknown.name)
    with r.Reader(path) as opened:
        opened.run()
    for each in sorted([path], key=r.load):
        each.strip()
    load = unknown
    load()


run = lambda path: r.load(path)  # noqa: E731
""",
    "tests/test_reader.py": """\
from store import Reader, read
from store.formats import *


def test_read():
    assert Reader("x").read() == []
    assert read("x")
    assert join(["a"]) == "a"
""",
}


@pytest.fixture(scope="module")
def library() -> SymbolIndex:
    return SymbolIndex(LIBRARY)


def names(index: SymbolIndex, symbol: str) -> list[str]:
    return [found.full_name for found in index.definitions(symbol)]


def certain(index: SymbolIndex, symbol: str) -> list[tuple[str, str, str]]:
    """Return the file name, text and enclosing function of each certain caller."""
    return [
        (use.path.rpartition("/")[2], use.text, use.inside.qualified)
        for use in index.callers(symbol)
        if use.is_certain
    ]


def possible(index: SymbolIndex, symbol: str) -> list[tuple[str, str]]:
    return [
        (use.path.rpartition("/")[2], use.text)
        for use in index.callers(symbol)
        if not use.is_certain
    ]


@pytest.mark.parametrize(
    ("symbol", "expected"),
    [
        ("Reader", ["store.reader.Reader"]),
        ("read", ["store.base.Base.read", "store.reader.Reader.read"]),
        ("Reader.read", ["store.reader.Reader.read"]),
        ("store.reader.Reader.read", ["store.reader.Reader.read"]),
        ("src.store.reader.Reader", ["store.reader.Reader"]),
        ("src/store/reader.py::Reader.read", ["store.reader.Reader.read"]),
        ("store/reader.py:Reader", ["store.reader.Reader"]),
        ("reader.py", ["store.reader"]),
        ("src/store/__init__.py", ["store"]),
        ("Reader.read()", ["store.reader.Reader.read"]),
        ("`load(path)`", ["store.reader.load"]),
        ("load.inner", ["store.reader.load.inner"]),
        ("self.prepare", ["store.base.Base.prepare"]),
        ("store.read", ["store.reader.load"]),  # imported under another name
        ("store.Csv", ["store.formats.Csv"]),  # by `import *`
        ("store.parse", ["store.slow.parse"]),  # where the import succeeds
        ("Reader.prepare", ["store.base.Base.prepare"]),  # inherited
        ("Reader.format", ["store.reader.Reader.format"]),
        ("nothing", []),
        ("Reader.nothing", []),
        ("", []),
        ("...", []),
        ("( ' é 🙂", []),
    ],
)
def test_names_of_a_symbol(library: SymbolIndex, symbol: str, expected: list[str]) -> None:
    """A symbol can be named bare, qualified, by path, as pytest does, inherited or re-exported."""
    assert names(library, symbol) == expected


def test_a_function_that_is_passed_on_is_no_call(library: SymbolIndex) -> None:
    """`key=load` is a use but not a call, and a lambda's call counts where it is defined."""
    uses = {use.line: use.is_call for use in library.callers("load") if use.text == "r.load"}
    assert list(uses.values()) == [False, True]


@pytest.mark.parametrize(
    ("symbol", "expected"),
    [
        (
            "store.reader.load",
            [
                ("cli.py", "read", "main"),
                ("cli.py", "store.reader.load", "main"),
                ("cli.py", "r.load", "main"),
                ("cli.py", "r.load", ""),
                ("test_reader.py", "read", "test_read"),
            ],
        ),
        (
            "Reader.read",
            [("cli.py", "reader.read", "main"), ("test_reader.py", "Reader().read", "test_read")],
        ),
        ("Reader.name", [("reader.py", "self.name", "Reader.read")]),
        ("Base.prepare", [("base.py", "self.prepare", "Base.run")]),
        ("Reader.check", [("reader.py", "self.check", "Reader.read")]),
        ("Reader._one", [("reader.py", "self._one", "Reader.read")]),
        ("Csv.decode", [("reader.py", "self.format.decode", "Reader._one")]),
        ("Cache.put", [("reader.py", "self.cache.put", "Reader.read")]),
        ("Cache.get", [("cli.py", "cache.get", "main")]),
        ("Reader.open", [("reader.py", "Reader.open", "load.inner")]),
        ("load.inner", [("reader.py", "inner", "load")]),
        ("Base.__init__", [("reader.py", "super().__init__", "Reader.__init__")]),
        (
            "Reader.__init__",
            [
                ("cli.py", "r.Reader", "main"),
                ("reader.py", "cls", "Reader.open"),
                ("test_reader.py", "Reader", "test_read"),
            ],
        ),
        ("slow.parse", [("cli.py", "parse", "main"), ("reader.py", "slow.parse", "Reader.check")]),
        (
            "formats.join",
            [("cli.py", "join", "main"), ("test_reader.py", "join", "test_read")],
        ),
    ],
)
def test_certain_callers(
    library: SymbolIndex, symbol: str, expected: list[tuple[str, str, str]]
) -> None:
    """Calls through types, super, aliases, re-exports and star imports, and reads of properties."""
    assert certain(library, symbol) == expected


@pytest.mark.parametrize(
    ("symbol", "expected"),
    [
        ("store.reader.load", []),
        # `Base.run` calls `self.read`, which can be a Reader's. The type of `unknown` is unknown.
        ("Reader.read", [("base.py", "self.read"), ("cli.py", "unknown.read")]),
        ("Reader.name", [("cli.py", "unknown.name")]),
        ("formats.join", []),
    ],
)
def test_possible_callers(
    library: SymbolIndex, symbol: str, expected: list[tuple[str, str]]
) -> None:
    """A method of an object of unknown type can be any of that name, but none of the builtins."""
    assert possible(library, symbol) == expected


def test_uses_of_a_class(library: SymbolIndex) -> None:
    """Base classes and annotations are uses but not calls."""
    uses = library.callers("store.base.Base")
    assert [(use.text, use.is_call) for use in uses] == [("Base", False)]
    (annotation,) = library.callers("Cache")[:1]
    assert (annotation.path, annotation.is_call) == ("src/store/cli.py", False)


def test_methods_of_other_types_are_no_possible_calls() -> None:
    """Methods of builtin types and other distributions are not mistaken for our own."""
    texts = {
        "a.py": "class A:\n    def join(self): ...\n    def get(self): ...\n",
        "b.py": (
            "import os, requests\n"
            "def f():\n"
            "    ','.join([])\n    os.path.join('a')\n    requests.get('x')\n    {}.get(1)\n"
        ),
    }
    index = SymbolIndex(texts)
    assert index.callers("A.join") == index.callers("A.get") == []


def test_callees_in_the_order_of_the_code(library: SymbolIndex) -> None:
    """A method's callees are listed in order, and only those defined in the repository."""
    found = [
        (use.text, [target.full_name for target in use.targets], use.is_certain)
        for use in library.callees("Reader.read")
    ]
    assert found == [
        ("self.name", ["store.reader.Reader.name"], True),
        ("self.check", ["store.reader.Reader.check"], True),
        ("self.cache.put", ["store.cache.Cache.put"], True),
        ("self._one", ["store.reader.Reader._one"], True),
    ]


def test_callees_of_a_function_contain_those_of_nested_ones(library: SymbolIndex) -> None:
    """Calls in an inner function also count as calls of the outer one."""
    texts = [use.text for use in library.callees("load")]
    assert texts == ["Reader.open", "Reader.open().run", "inner"]


def test_a_possible_callee_names_all_that_it_could_be(library: SymbolIndex) -> None:
    """If the receiver's type is unknown, every method of that name is a possible target."""
    use = next(use for use in library.callees("cli.main") if use.text == "unknown.read")
    assert not use.is_certain
    assert [found.full_name for found in use.targets] == [
        "store.base.Base.read",
        "store.reader.Reader.read",
    ]


def test_imports_name_the_defining_files_too(library: SymbolIndex) -> None:
    """A test that imports from a package also imports the modules behind it."""
    assert library.imports("tests/test_reader.py") == [
        "src/store/__init__.py",
        "src/store/formats.py",
        "src/store/reader.py",
    ]
    assert library.imports("nowhere.py") == []


def test_names_from_the_helpers_of_tests_are_followed_no_further() -> None:
    """A helper is a file of its own, and a helper's package leads to it."""
    texts = {
        "shop.py": "def total(): ...\n",
        "tests/__init__.py": "",
        "tests/helpers.py": "from shop import total\n",
        "tests/test_shop.py": "from tests import helpers\nfrom tests.helpers import total\n",
    }
    index = SymbolIndex(texts)
    assert index.imports("tests/test_shop.py") == ["tests/__init__.py", "tests/helpers.py"]
    assert index.imports("tests/helpers.py") == ["shop.py"]


@pytest.mark.parametrize(
    ("texts", "symbol", "callers"),
    [
        pytest.param(
            {
                "a.py": "from b import f as f\nfrom c import *\nf(); g()\n",
                "b.py": "from a import f\n",
                "c.py": "from d import *\n",
                "d.py": "from c import *\ndef g(): ...\n",
            },
            "d.g",
            ["g"],
            id="cyclic imports",
        ),
        pytest.param(
            {"a.py": "class A(A): pass\nclass B(C): pass\nclass C(B):\n def m(self): self.n()\n"},
            "C.m",
            [],
            id="cyclic bases",
        ),
        pytest.param(
            {"a/b.py": "def f(): ...\n", "a/c/d.py": "from ..b import f\nfrom ... import z\nf()\n"},
            "a.b.f",
            ["f"],
            id="relative imports without __init__",
        ),
        pytest.param(
            {"a/b.py": "def f(): ...\n", "main.py": "import a.b\na.b.f()\n"},
            "f",
            ["a.b.f"],
            id="namespace packages",
        ),
        pytest.param(
            {"tests/helpers.py": "def f(): ...\n", "tests/io/t.py": "import helpers\nhelpers.f()"},
            "f",
            ["helpers.f"],
            id="helpers further up",
        ),
        pytest.param(
            {"lib/json.py": "def f(): ...\n", "tools/t.py": "import json\njson.loads(); json.f()"},
            "json.f",
            ["json.f"],
            id="a module like the standard library's, in a usual root",
        ),
        pytest.param(
            {"a/x/json.py": "def f(): ...\n", "b/t.py": "import json\njson.f()\n"},
            "f",
            [],
            id="a module like the standard library's, elsewhere",
        ),
        pytest.param(
            {"a.py": "def deco(f): ...\n@deco\ndef g(): ...\n@deco\nclass C: ...\n"},
            "deco",
            ["deco", "deco"],
            id="decorators",
        ),
        pytest.param(
            {"a.py": "def f(): ...\nx = [f() for f in [1]]\ndef g(f=f): f()\n"},
            "f",
            ["f", "f"],
            id="a default is of the outer scope",
        ),
        pytest.param(
            {"a.py": "class A:\n def f(self): ...\n def g(self): return f()\ndef f(): ...\n"},
            "a.f",
            ["f"],
            id="methods do not see their class's names",
        ),
        pytest.param(
            {"a.py": "class A:\n def __call__(self): ...\ndef f(a: A): a()\n"},
            "A.__call__",
            [],
            id="calling an instance by another name",
        ),
        pytest.param(
            {"a.py": "def f(): ...\nasync def g(): return (await h()).f()\ndef h(): ...\n"},
            "h",
            ["h"],
            id="await",
        ),
        pytest.param(
            {"a.py": "from typing import overload\n@overload\ndef f(x: int): ...\n"
                     "@overload\ndef f(x: str): ...\ndef f(x): ...\nf(1)\n"},
            "f",
            ["f"],
            id="overloads are one function",
        ),
        pytest.param(
            {f"m{n}.py": "".join(f"from m{k} import *\n" for k in range(30)) + "f()\n"
             for n in range(30)} | {"z.py": "def f(): ...\n", "m7.py": "from z import *\n"},
            "z.f",
            ["f"] * 29,
            id="all modules import each other",
        ),
        pytest.param(
            {"a.py": "class A:\n def m(self): ...\nx, y = A(), 1\nx.m()\n"},
            "A.m",
            ["x.m?"],
            id="unpacking",
        ),
        pytest.param(
            {"a.py": "if x:\n def f(): ...\nelse:\n from other import f\nf()\n"},
            "f",
            ["f"],
            id="a definition beside a foreign import",
        ),
    ],
)  # fmt: skip
def test_corners_of_scopes_and_imports(
    texts: Mapping[str, str], symbol: str, callers: list[str]
) -> None:
    """Scopes and imports are resolved as in Python. `?` marks a use that is only possible."""
    uses = SymbolIndex(texts).callers(symbol)
    assert [use.text if use.is_certain else f"{use.text}?" for use in uses] == callers


def test_the_order_of_the_files_does_not_matter() -> None:
    """The order of the files does not change any answer."""
    expected = SymbolIndex(LIBRARY)
    for seed in range(5):
        paths = list(LIBRARY)
        random.Random(seed).shuffle(paths)
        shuffled = SymbolIndex({path: LIBRARY[path] for path in paths})
        for symbol in ("read", "load", "Reader", "Base.run"):
            assert shuffled.definitions(symbol) == expected.definitions(symbol)
            assert shuffled.callers(symbol) == expected.callers(symbol)
            assert shuffled.callees(symbol) == expected.callees(symbol)


def test_no_answer_depends_on_what_was_asked_before() -> None:
    """Answers do not depend on earlier queries, even for names that form a cycle."""
    texts = {
        "a.py": "from b import f\nfrom c import *\nclass A(B): ...\nx = y\nf(); g(); x.m()\n",
        "b.py": "try:\n from a import f\nexcept E:\n from c import f\nfrom a import B\n",
        "c.py": "from a import *\nfrom b import B\ny = B()\ny = x\ndef g(): ...\nf(); g()\n",
        "d.py": "class B:\n def m(self): ...\ndef f(): ...\n",
    }
    symbols = ["f", "g", "m", "A", "B", "A.m", "a.f", "c.B"]
    expected = {symbol: SymbolIndex(texts).callers(symbol) for symbol in symbols}
    for seed in range(20):
        index = SymbolIndex(texts)
        for symbol in random.Random(seed).sample(symbols, len(symbols)):
            assert index.callers(symbol) == expected[symbol]
