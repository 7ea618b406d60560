"""Definitions, callers, callees, imports and tests in each language of the index."""

import pytest

from agent.index.symbols import SymbolIndex
from agent.index.tests_of import covering

SHOPS = {
    "python": {
        "shop/__init__.py": "",
        "shop/cart.py": (
            "from shop.prices import Rate\n\n\nclass Cart:\n    '''Holds what is bought.'''\n\n"
            "    rate: Rate\n\n    def total(self):\n        return self.rate.apply(3)\n\n\n"
            "def open_cart() -> Cart:\n    return Cart()\n"
        ),
        "shop/prices.py": "class Rate:\n    def apply(self, amount):\n        return amount\n",
        "tests/test_cart.py": (
            "from shop.cart import open_cart\n\n\ndef test_total():\n    open_cart().total()\n"
        ),
    },
    "javascript": {
        "src/cart.js": (
            "import { Rate } from './prices.js';\n"
            "/** Holds what is bought. */\n"
            "export class Cart {\n  rate = new Rate();\n"
            "  total() { return this.rate.apply(3); }\n}\n"
            "export function openCart() { return new Cart(); }\n"
        ),
        "src/prices.js": "export class Rate {\n  apply(amount) { return amount; }\n}\n",
        "test/cart.test.js": (
            "const { openCart, Cart } = require('../src/cart');\n"
            "test('total', () => { const cart = new Cart(); openCart(); cart.total(); });\n"
        ),
    },
    "typescript": {
        "src/cart.ts": (
            "import { Rate } from './prices';\n"
            "/**\n * Holds what is bought.\n */\n"
            "export class Cart {\n  constructor(private rate: Rate) {}\n"
            "  total(): number { return this.rate.apply(3); }\n}\n"
            "export const openCart = (): Cart => new Cart(new Rate());\n"
        ),
        "src/prices.ts": "export class Rate { apply(amount: number) { return amount; } }\n",
        "src/cart.spec.ts": (
            "import { Cart, openCart as begin } from '@/cart';\n"
            "test('total', () => { const cart: Cart = begin(); cart.total(); });\n"
        ),
    },
    "go": {
        "go.mod": "module example.org/shop\n",
        "cart/cart.go": (
            'package cart\n\nimport "example.org/shop/prices"\n\n'
            "// Holds what is bought.\n"
            "type Cart struct {\n\trate *prices.Rate\n}\n\n"
            "func (c *Cart) Total() int {\n\treturn c.rate.Apply(3)\n}\n\n"
            "func OpenCart() *Cart {\n\treturn &Cart{}\n}\n"
        ),
        "prices/prices.go": (
            "package prices\n\ntype Rate struct{}\n\n"
            "func (r Rate) Apply(amount int) int { return amount }\n"
        ),
        "cart/cart_test.go": (
            'package cart\n\nimport "testing"\n\n'
            "func TestTotal(t *testing.T) {\n\tcart := OpenCart()\n\tcart.Total()\n}\n"
        ),
    },
    "rust": {
        "Cargo.toml": '[package]\nname = "the-shop"\n',
        "src/lib.rs": "pub mod cart;\nmod prices;\n",
        "src/cart.rs": (
            "use crate::prices::{self, Rate};\n"
            "/// Holds what is bought.\n#[derive(Default)]\n"
            "pub struct Cart {\n    rate: Rate,\n}\n"
            "impl Cart {\n    pub fn total(&self) -> u32 {\n        self.rate.apply(3)\n    }\n}\n"
            "pub fn open_cart() -> Cart {\n    Cart { rate: prices::Rate {} }\n}\n"
        ),
        "src/prices.rs": (
            "pub struct Rate {}\nimpl Rate {\n"
            "    pub fn apply(&self, amount: u32) -> u32 { amount }\n}\n"
        ),
        "tests/cart.rs": (
            "use the_shop::cart::open_cart;\n#[test]\nfn totals() {\n"
            "    let cart = open_cart();\n    cart.total();\n}\n"
        ),
    },
    "java": {
        "src/main/java/org/shop/Cart.java": (
            "package org.shop;\n\nimport org.shop.prices.Rate;\n\n"
            "/** Holds what is bought. */\n"
            "public class Cart {\n  private Rate rate = new Rate();\n"
            "  public int total() { return rate.apply(3); }\n"
            "  public static Cart openCart() { return new Cart(); }\n}\n"
        ),
        "src/main/java/org/shop/prices/Rate.java": (
            "package org.shop.prices;\n\npublic class Rate {\n"
            "  public int apply(int amount) { return amount; }\n}\n"
        ),
        "src/test/java/org/shop/CartTest.java": (
            "package org.shop;\n\nclass CartTest {\n  void totals() {\n"
            "    var cart = Cart.openCart();\n    cart.total();\n  }\n}\n"
        ),
    },
}


NAMES = {"go": ("Total", "OpenCart", "Apply"), "python": ("total", "open_cart", "apply")}
NAMES["rust"] = NAMES["python"]


@pytest.mark.parametrize("language", SHOPS)
def test_symbols_are_found_in_each_language(language: str) -> None:
    """Definitions, callers, callees and tests are found across the files of a repository."""
    texts, index = SHOPS[language], SymbolIndex(SHOPS[language])
    total, opening, applied = NAMES.get(language, ("total", "openCart", "apply"))
    [cart] = index.definitions("Cart")
    assert (cart.kind, cart.doc, "Cart" in cart.signature) == (
        "class",
        "Holds what is bought.",
        True,
    )
    [method] = index.definitions(f"Cart.{total}")
    assert (method.path, method.kind) == (cart.path, "method")
    [test] = covering(index, texts, [cart.path])
    assert {use.path for use in index.callers(total)} == {test}
    called = [use for use in index.callers(opening) if use.is_call]
    assert [(use.path, use.is_certain) for use in called] == [(test, True)]
    [callee] = [use for use in index.callees(f"Cart.{total}") if use.is_call]
    assert ([target.name for target in callee.targets], callee.is_certain) == ([applied], True)
    assert callee.targets[0].path in index.imports(cart.path)
    assert cart.path in index.imports(test)
