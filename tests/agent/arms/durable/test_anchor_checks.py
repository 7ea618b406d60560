"""Static checks of a reproduction test."""

import pytest

from agent.arms.durable.reproduction import asserts_something


@pytest.mark.parametrize(
    "source",
    [
        "def test(): assert f() == 1",
        "def test():\n    value = f()\n    assert value",
        "class T(TestCase):\n    def test(self): self.assertEqual(f(), 1)",
        "def test():\n    with pytest.raises(ValueError):\n        f()",
    ],
)
def test_real_assertions_count(source: str) -> None:
    """Plain asserts, unittest's methods and pytest.raises count as assertions."""
    assert asserts_something(source)


@pytest.mark.parametrize(
    "source",
    [
        "def test(): assert True",
        "def test(): assert False",
        "def test(): assert 1 == 2, 'text with assert f()'",
        "def test():\n    # assert f() == 1\n    'assert f()'",
        "def test(): f()",
        "def test(): assert (",
        "class T(TestCase):\n    def test(self): self.assertTrue(False)",
    ],
)
def test_constants_comments_and_strings_do_not_count(source: str) -> None:
    """Constants, comments, strings and files with syntax errors contain no real assertion."""
    assert not asserts_something(source)
