"""Files that are parsed when a question needs them."""

import pytest

from agent.index import files as module
from agent.index.files import Files
from agent.index.symbols import SymbolIndex
from agent.index.syntax import FileSyntax

TEXTS = {
    "shop/cart.py": "from shop.money import round_up\n\n\ndef total(prices): ...\n",
    "shop/money.py": "def round_up(amount): ...\n\n\nRATE = 2\n",
    "shop/odd.py": "# A class\ndef late(): ...\n# subtotal\n",
    "tests/test_cart.py": "from shop.cart import total\n\n\ndef test_total():\n    total([])\n",
    "README.md": "def total\n",
}


@pytest.fixture
def parsed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the paths that were parsed, in order."""
    found: list[str] = []
    path_of = {text: path for path, text in TEXTS.items()}

    def parse(text: str) -> FileSyntax | str:
        found.append(path_of[text])
        return real(text)

    real = module.parse
    monkeypatch.setattr(module, "parse", parse)
    return found


def test_a_question_has_only_the_files_parsed_that_contain_the_name(parsed: list[str]) -> None:
    """The definition and its callers are found without the syntax of other files."""
    index = SymbolIndex(TEXTS)
    assert parsed == []
    [definition] = index.definitions("round_up")
    assert (definition.path, parsed) == ("shop/money.py", ["shop/cart.py", "shop/money.py"])
    assert [use.path for use in index.callers("total")] == ["tests/test_cart.py"]
    assert parsed == ["shop/cart.py", "shop/money.py", "tests/test_cart.py"]


def test_use_counts_need_no_tests(parsed: list[str]) -> None:
    """A map has no test parsed, which is half of the time for many repositories."""
    assert SymbolIndex(TEXTS).use_counts == {}
    assert [path for path in parsed if path.startswith("tests/")] == []


def test_imports_need_no_syntax_of_the_importing_file(parsed: list[str]) -> None:
    """Only the module that is imported from is parsed, for where its names are from."""
    assert SymbolIndex(TEXTS).imports("tests/test_cart.py") == ["shop/cart.py"]
    assert parsed == ["shop/cart.py"]


@pytest.mark.parametrize(
    ("name", "paths"),
    [
        ("total", ["shop/cart.py", "tests/test_cart.py"]),
        ("RATE", ["shop/money.py"]),
        ("tot", []),
        ("a.b(", []),
    ],
)
def test_a_name_is_found_as_a_whole_word(name: str, paths: list[str]) -> None:
    """`total` is neither in `subtotal` nor in `test_total`."""
    assert list(Files(TEXTS).containing(name)) == paths


def test_a_comment_hides_no_declaration() -> None:
    """A comment that ends in `class` stands before a function."""
    assert Files({"a.py": "# a class\ndef late(): ...\n"}).declaring("late") == ["a.py"]
