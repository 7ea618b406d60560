"""The door from a repository to "is this path a test file?"."""

import json

import pytest

from agent.testfiles import BY_CONVENTION, MAX_CHARS, read_test_files

PATHS = {
    "pyproject.toml": "",
    "src/pkg/io.py": "",
    "tests/unittest_io.py": "",
    "tests/test_io.py": "",
    "tests/check_io.py": "",
    "testing/python/collect.py": "",
    "testing/conftest.py": "",
    "doc/example/test_order.py": "",
    "build/test_copy.py": "",
    "web/src/button.test.ts": "",
    "web/src/__tests__/form.js": "",
    "web/checks/form.js": "",
}


def collected(files: dict[str, str]) -> list[str]:
    """Return what is collected of `PATHS` with some configuration."""
    texts = {**PATHS, **files}
    answer = read_test_files(texts, texts.__getitem__)
    return sorted(path for path in PATHS if answer.collects(path))


UNITTEST = ["tests/test_io.py", "tests/unittest_io.py"]
CONVENTION = ["doc/example/test_order.py", "tests/test_io.py", "web/src/button.test.ts"]
SCRIPT = ["web/src/button.test.ts"]


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        (
            {
                "pyproject.toml": "[tool.pytest.ini_options]\npython_files = '*test_*.py'\n"
                "testpaths = ['tests']\n"
            },
            [*UNITTEST, *SCRIPT],
        ),
        (
            {"setup.cfg": "[tool:pytest]\npython_files =\n  *test_*.py\ntestpaths = tests\n"},
            [*UNITTEST, *SCRIPT],
        ),
        ({"tox.ini": "[pytest]\npython_files = check_*.py\n"}, ["tests/check_io.py", *SCRIPT]),
        (
            {"pytest.ini": "[pytest]\npython_files = testing/python/*.py\n"},
            ["testing/python/collect.py", *SCRIPT],
        ),
        # The first file with a section counts, and an empty pytest.ini always does.
        (
            {"pytest.ini": "", "tox.ini": "[pytest]\npython_files = check_*.py\n"},
            CONVENTION,
        ),
        ({"setup.cfg": "[metadata]\nname = x\n"}, CONVENTION),
        # Folders of `testpaths` without a test, as in pytest itself.
        ({"pytest.ini": "[pytest]\ntestpaths = nowhere\n"}, CONVENTION),
        (
            {"pytest.ini": "[pytest]\ntestpaths = te*\nnorecursedirs = doc\n"},
            ["tests/test_io.py", *SCRIPT],
        ),
        (
            {"web/package.json": json.dumps({"devDependencies": {"jest": "29"}})},
            [*CONVENTION, "web/src/__tests__/form.js"],
        ),
        (
            {"web/package.json": json.dumps({"jest": {"testMatch": ["<rootDir>/checks/**"]}})},
            [*CONVENTION[:-1], "web/checks/form.js"],
        ),
        (
            {"web/vitest.config.ts": "const c = {test: {include: ['**/{a,form}.?(m)js']}}"},
            [
                *CONVENTION[:-1],
                "web/checks/form.js",
                "web/src/__tests__/form.js",
            ],
        ),
        (
            {"web/package.json": '{"scripts": {"test": "node --test"}}', "web/test/form.js": ""},
            [*CONVENTION],
        ),
        (
            {"web/.mocharc.yml": "spec: checks/*.js\n"},
            [*CONVENTION[:-1], "web/checks/form.js"],
        ),
    ],
)
def test_the_repository_states_its_tests(files: dict[str, str], expected: list[str]) -> None:
    """Patterns of pytest, jest, vitest and mocha decide, in the order in which these read them."""
    assert collected(files) == sorted(expected)


@pytest.mark.parametrize(
    "path",
    [
        "internal/reader_test.go",
        "src/test/java/ReaderTest.java",
        "tests/reader.rs",
        "tests/ReaderTest.php",
        "spec/models/user_spec.rb",
    ],
)
def test_languages_that_fix_the_name(path: str) -> None:
    """Go, Java, Rust, PHP and Ruby need no configuration."""
    assert BY_CONVENTION.collects(path)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("pyproject.toml", "[tool.pytest.ini_options\n"),
        ("pyproject.toml", "[tool.pytest.ini_options]\npython_files = 7\n"),
        ("pyproject.toml", "tool = 1\n"),
        ("pyproject.toml", "a = " + "[" * 100_000),
        ("setup.cfg", "python_files = x\n"),
        ("tox.ini", "[pytest]\npython_files = '\n"),
        ("tox.ini", "[pytest]\npython_files = " + "*a" * 101),
        ("tox.ini", "[pytest]\npython_files = check_*.py\n" + "#" * MAX_CHARS),
        ("web/package.json", "{"),
        ("web/package.json", "[" * 100_000),
        ("web/package.json", json.dumps({"jest": {"testMatch": 3}, "mocha": [1]})),
        ("web/.mocharc.yml", "spec: [&a a, *b]\n"),
        ("web/.mocharc.yml", "[" * 1_000),
        ("web/jest.config.js", "module.exports = {testMatch: ["),
    ],
)
def test_a_broken_configuration_leaves_the_conventions(name: str, text: str) -> None:
    """Text of strangers that cannot be read, is too long, or has other types changes nothing."""
    found = collected({name: text})
    assert found == CONVENTION


@pytest.mark.parametrize("pattern", ["*a" * 90, "{a,b}" * 30, "+(*a)" * 30, "**/" * 60, "[" * 150])
def test_hostile_patterns_end_soon(pattern: str) -> None:
    """A pattern with many wildcards or alternatives takes no time that grows without bounds."""
    long = "a" * 250 + "/" + "a" * 250 + "b"
    for name, text in (
        ("pytest.ini", f"[pytest]\npython_files = {pattern}\ntestpaths = {pattern}\n"),
        ("package.json", json.dumps({"jest": {"testMatch": [pattern]}})),
    ):
        texts = {name: text, f"{long}.py": "", f"{long}.js": ""}
        answer = read_test_files(texts, texts.__getitem__)
        assert not answer.collects(f"{long}.py")
        assert not answer.collects(f"{long}.js")
