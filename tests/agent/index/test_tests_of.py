"""The tests that cover given files."""

import pytest

from agent.index.symbols import SymbolIndex
from agent.index.tests_of import covering, find_tests

TEXTS = {
    "src/shop/__init__.py": "from .cart import Cart\n",
    "src/shop/cart.py": "from shop.prices import total\nclass Cart: ...\n",
    "src/shop/prices.py": "def total(): ...\n",
    "src/shop/mail.py": "def send(): ...\n",
    "src/shop/io/__init__.py": "def read(): ...\n",
    "src/web/button.ts": "export const Button = 1\n",
    "tests/conftest.py": "import pytest\nfrom shop.mail import send\n",
    "tests/test_cart.py": "from shop import Cart\n",
    "tests/test_cart_discounts.py": "def test(): ...\n",
    "tests/test_everything.py": "import shop.prices\nimport shop.cart\n",
    "tests/io/test_io.py": "from shop.io import read\n",
    "tests/helpers.py": "import shop.mail\n",
    "other/test_other.py": "import os\n",
    "web/button.test.ts": "import {Button} from '../src/web/button'\n",
    "web/form.spec.js": "require('./button-group')\n",
}


@pytest.fixture(scope="module")
def index() -> SymbolIndex:
    return SymbolIndex(TEXTS)


def found(index: SymbolIndex, *sources: str) -> list[str]:
    return [covering.path for covering in covering(index, TEXTS, sources)]


def test_files_that_a_runner_collects() -> None:
    """Helpers and conftest files are not listed as tests."""
    assert find_tests(TEXTS) == [
        "other/test_other.py",
        "tests/io/test_io.py",
        "tests/test_cart.py",
        "tests/test_cart_discounts.py",
        "tests/test_everything.py",
        "web/button.test.ts",
        "web/form.spec.js",
    ]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        # Named after the file and imports it through the package; named; imports.
        (
            "src/shop/cart.py",
            ["tests/test_cart.py", "tests/test_cart_discounts.py", "tests/test_everything.py"],
        ),
        # Imports the file; imports it by way of the cart.
        ("src/shop/prices.py", ["tests/test_everything.py", "tests/test_cart.py"]),
        # Covered by the shared conftest, but not for tests elsewhere.
        (
            "src/shop/mail.py",
            [
                "tests/io/test_io.py",
                "tests/test_cart.py",
                "tests/test_cart_discounts.py",
                "tests/test_everything.py",
            ],
        ),
        ("src/shop/io/__init__.py", ["tests/io/test_io.py"]),
        ("src/web/button.ts", ["web/button.test.ts"]),
        ("src/nowhere.py", []),
    ],
)
def test_by_name_and_import(index: SymbolIndex, source: str, expected: list[str]) -> None:
    """Tests are found by name and import, the most likely first."""
    assert found(index, source) == expected


def test_of_equally_likely_tests_the_nearest_comes_first() -> None:
    """In a large package with tests in each part, far ones take long and show little."""
    texts = {
        "lib/units/prefixes.py": "def milli(): ...\n",
        "lib/units/tests/test_quantities.py": "import lib.units.prefixes\n",
        "lib/core/tests/test_everything.py": "import lib.units.prefixes\n",
        "lib/beams/tests/test_beam.py": "import lib.units.prefixes\n",
    }
    paths = [each.path for each in covering(SymbolIndex(texts), texts, ["lib/units/prefixes.py"])]
    assert paths == [
        "lib/units/tests/test_quantities.py",
        "lib/beams/tests/test_beam.py",
        "lib/core/tests/test_everything.py",
    ]


def test_reasons_are_given_and_points_add_up(index: SymbolIndex) -> None:
    """A test that covers two of the changed files comes before one that covers only one."""
    best = covering(index, TEXTS, ["src/shop/cart.py", "src/shop/prices.py"])[0]
    assert best.path == "tests/test_cart.py"
    assert best.reasons == (
        "is named after it: src/shop/cart.py",
        "imports it: src/shop/cart.py",
        "imports what imports it: src/shop/prices.py",
    )
    assert best.points == 8
