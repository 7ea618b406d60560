"""The tests that cover given files."""

import pytest

from agent.index.symbols import SymbolIndex
from agent.index.tests_of import covering, get_changed_names

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
    return covering(index, TEXTS, sources)


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
    assert covering(SymbolIndex(texts), texts, ["lib/units/prefixes.py"]) == [
        "lib/units/tests/test_quantities.py",
        "lib/beams/tests/test_beam.py",
        "lib/core/tests/test_everything.py",
    ]


def test_points_add_up(index: SymbolIndex) -> None:
    """A test that covers two of the changed files comes before one that covers only one."""
    assert found(index, "src/shop/cart.py", "src/shop/prices.py")[0] == "tests/test_cart.py"


def test_a_test_that_mentions_the_changed_code_comes_first() -> None:
    """Of tests that import the same package, one that uses the changed function decides."""
    texts = {
        "lib/__init__.py": "from lib.codec import encode, decode_frame\n",
        "lib/codec.py": "def encode(): ...\n\n\ndef decode_frame(data): ...\n",
        "tests/unittest_a.py": "import lib\nlib.encode()\n",
        "tests/unittest_z.py": "import lib\nlib.decode_frame(b'')\n",
        "setup.cfg": "[tool:pytest]\npython_files = *test_*.py\n",
    }
    patch = "@@ -4,2 +4,2 @@ def decode_frame(data):\n-    return 1\n+    return 2\n"
    names = get_changed_names(patch)
    assert covering(SymbolIndex(texts), texts, ["lib/codec.py"], names)[0] == "tests/unittest_z.py"
    only = ["tests/unittest_a.py"]
    found = covering(SymbolIndex(texts), texts, ["lib/codec.py"], names, only)
    assert "tests/unittest_z.py" not in found
