"""Import statements that are found in the text of a file."""

import ast
import sysconfig
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.index.imports import Import, Imported, imports


def found(text: str) -> list[str]:
    """Return the imports of a text in short: `..module:name=alias`."""
    return [
        "." * each.level + each.module + (f":{each.name}" if each.name else "") + _as(alias)
        for each, alias in imports(text)
    ]


def _as(alias: str | None) -> str:
    return f"={alias}" if alias else ""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("import a, b.c as d\n", ["a", "b.c=d"]),
        ("from a import b as c, d\n", ["a:b=c", "a:d"]),
        ("from . import a\nfrom ..b.c import d\n", [".:a", "..b.c:d"]),
        ("from .. b import(c)\n", ["..b:c"]),
        ("from a import *", ["a:*"]),
        ("from a import (\n    b,  # not this: (x)\n    c as d,\n)\n", ["a:b", "a:c=d"]),
        ("from a import b, \\\n    c\n", ["a:b", "a:c"]),
        ("from a \\\n    import b\n", ["a:b"]),
        ("from a import \\\n    (b, c)\n", ["a:b", "a:c"]),
        ("import a; import b; x = 1\n", ["a", "b"]),
        ("try: import a\nexcept ImportError: from b import c\n", ["a", "b:c"]),
        ("def f():\n\timport a  # why\n", ["a"]),
        ("\ufefffrom a import b\r\nimport c\r\n", ["a:b", "c"]),
        ("print 'python 2'\nfrom a import b\n", ["a:b"]),
        ("importlib.import_module('a')\nimportant = 1\nx.import_ = y\n", []),
        ("# import a\n>>> import b\nraise A from important\n", []),
        ("from the import of goods, from abroad\n", []),
    ],
)
def test_forms_of_the_statement(text: str, expected: list[str]) -> None:
    """Every form of Python's grammar is found at any location, and prose is not."""
    assert found(text) == expected


def test_an_import_in_a_string_counts() -> None:
    """Tests of tools write modules that import what they test."""
    assert found('make("""\nfrom a import b\n""")\n') == ["a:b"]


def test_no_import_of_pythons_own_library_is_missed() -> None:
    """The statements that Python's parser finds are all found."""
    folder = Path(sysconfig.get_path("stdlib"))
    for path in [*folder.glob("*.py"), *folder.glob("asyncio/*.py"), *folder.glob("email/*.py")]:
        text = path.read_text(encoding="utf-8")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(text)
        missed = {*_by_the_parser(tree)} - {*imports(text)}
        assert not missed, path


def _by_the_parser(tree: ast.AST) -> Iterator[Import]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (Import(Imported(each.name, 0, None), each.asname) for each in node.names)
        if isinstance(node, ast.ImportFrom):
            module, level = node.module or "", node.level
            yield from (
                Import(Imported(module, level, each.name), each.asname) for each in node.names
            )
