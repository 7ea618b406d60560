"""Long texts lose their middle and say how much was left out."""

import pytest

from agent.shortening import head_and_tail, shorten_middle


def test_text_that_fits_is_unchanged() -> None:
    """A text that fits is unchanged."""
    assert shorten_middle("x" * 10, 10) == "x" * 10
    assert shorten_middle("", 0) == ""


def test_half_from_each_end() -> None:
    """The lake stores this form of a shortened text, so it must never change."""
    assert shorten_middle("abcdefghijk", 4) == "ab\n[... 7 characters ...]\njk"
    assert shorten_middle("abcdefghijk", 5) == "ab\n[... 7 characters ...]\njk"


def test_whole_lines() -> None:
    """Models receive this form, and their recorded requests must never change."""
    text = "one\ntwo\nthree\nfour\nfive\n"
    expected = "one\n[... 15 characters in 3 lines left out ...]\nfive\n"
    assert head_and_tail(text, 10) == expected


@pytest.mark.parametrize("size", [0, 1])
def test_no_room(size: int) -> None:
    """Without room for any text, only the size of the text remains."""
    assert shorten_middle("abc", size) == "\n[... 3 characters ...]\n"
    assert head_and_tail("abc", size) == "\n[... 3 characters in 1 lines left out ...]\n"
