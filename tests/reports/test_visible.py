"""Text of strangers loses its effect on terminals and pages, and nothing that can be read."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reports.quoting import make_visible
from reports.rendering.page import environment


@given(st.text(st.characters()))
def test_no_character_acts_or_hides(text: str) -> None:
    """Only line ends and tabs are left of what does not print. A visible text is not changed."""
    shown = make_visible(text)
    odd = {unicodedata.category(each) for each in shown} & {"Cc", "Cf", "Cs", "Co", "Zl", "Zp"}
    assert odd <= ({"Cc"} if set("\n\t") & set(shown) else set())
    assert make_visible(shown) == shown
    assert shown.encode().decode() == shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain text,\n\tüñ 漢字 ⚠️ 25\u00a0%", "plain text,\n\tüñ 漢字 ⚠️ 25\u00a0%"),
        ("\x1b]52;c;eA==\x07", r"\x1b]52;c;eA==\x07"),
        ("\x9b31m\x00\x08\x7f", r"\x9b31m\x00\x08\x7f"),
        ("one\r\ntwo\rthree", "one\ntwo" + r"\x0dthree"),
        ("\u202egnp.exe \u2066\u061c\u200e", r"\u202egnp.exe \u2066\u061c\u200e"),
        ("\u200b\u00ad\ufeff\u3164\u2028", r"\u200b\xad\ufeff\u3164\u2028"),
        ("a\U000e0041\U000e0101", r"a\U000e0041\U000e0101"),
        ("\udc80", r"\udc80"),
    ],
)
def test_what_does_not_print_is_shown(text: str, shown: str) -> None:
    """It becomes its number. A line end of Windows is one."""
    assert make_visible(text) == shown


def test_no_page_holds_what_does_not_print() -> None:
    """Every template renders visible text, with its values escaped."""
    page = environment().from_string("<p>{{ said }}</p>").render(said="<b>\x1b[2J\u202e")
    assert page == r"<p>&lt;b&gt;\x1b[2J\u202e</p>"
