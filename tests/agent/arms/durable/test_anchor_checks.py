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
    assert asserts_something("test_a.py", source)


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
    assert not asserts_something("test_a.py", source)


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("a_test.go", 'if got != 1 { t.Errorf("got %d", got) }'),
        ("a.test.js", "assert.strictEqual(f(), 1);"),
        ("a.test.ts", "expect(f()).toBe(1)"),
        ("tests/a.rs", "assert_eq!(f(), 1);"),
        ("src/test/java/ATest.java", "assertEquals(1, f());"),
    ],
)
def test_other_languages_assert_by_name(path: str, source: str) -> None:
    """A test in another language asserts if it calls a function with the name of an assertion."""
    assert asserts_something(path, source)
    assert not asserts_something(path, "f();")
