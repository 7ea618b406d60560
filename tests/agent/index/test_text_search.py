"""Searching the text of every file."""

from time import monotonic

import pytest

from agent.index.text_search import MAX_LINE_CHARS, search

TEXTS = {
    "docs/guide.md": "Call `load(path)`.\nThen wait.\n",
    "src/app.js": "export function load(path) {\r\n  return path;\r\n}\r\n",
    "src/reader.py": "import os\n\n\ndef load(path):\n    return 1\n\n\nload('a'); load('b')\n",
    "tests/test_reader.py": "from reader import load\n",
    "empty.txt": "",
}


def found(pattern: str, **options: object) -> list[tuple[str, int]]:
    result = search(TEXTS, pattern, **options)  # type: ignore[arg-type]
    return [(match.path, match.line) for match in result.matches]


def test_files_of_every_kind_are_searched_code_first() -> None:
    """Code, then tests, then documents; a line with two matches is one match."""
    assert found("load") == [
        ("src/app.js", 1),
        ("src/reader.py", 4),
        ("src/reader.py", 8),
        ("tests/test_reader.py", 1),
        ("docs/guide.md", 1),
    ]


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        (r"^def \w+\(", [("src/reader.py", 4)]),
        (r"path;$", [("src/app.js", 2)]),  # the line ends there, whatever ends it
        (r"wait\.$", [("docs/guide.md", 2)]),
        ("^$", [("src/reader.py", line) for line in (2, 3, 6, 7)]),
        (r"path\):\n    return", [("src/reader.py", 4)]),
        ("nowhere", []),
    ],
)
def test_regular_expressions(pattern: str, expected: list[tuple[str, int]]) -> None:
    """Anchors are those of lines, and a pattern may span lines."""
    assert found(pattern) == expected


def test_what_is_no_regular_expression_is_taken_literally() -> None:
    """`load(` is what one would type, and the result says how it was understood."""
    result = search(TEXTS, "load(")
    assert [match.path for match in result.matches] == [
        "src/app.js",
        "src/reader.py",
        "src/reader.py",
        "docs/guide.md",
    ]
    assert "literally" in result.note


def test_literally_and_without_case() -> None:
    """A dot is a dot when asked for, and case can be ignored."""
    assert found("a.b", literal=True) == []
    assert found("WAIT.", literal=True, ignore_case=True) == [("docs/guide.md", 2)]


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("src", {"src/app.js", "src/reader.py"}),
        ("./src/", {"src/app.js", "src/reader.py"}),
        ("src/reader.py", {"src/reader.py"}),
        ("*.md", {"docs/guide.md"}),
        ("sr", set()),
        (".", {path for path in TEXTS if path != "empty.txt"}),
    ],
)
def test_a_file_a_folder_or_a_pattern(path: str, expected: set[str]) -> None:
    """Where to search can be said in any of these ways."""
    assert {found_path for found_path, _ in found("load", path=path)} == expected


def test_context_lines_end_at_the_ends_of_the_file() -> None:
    """Lines around a match, as many as there are."""
    (match,) = search(TEXTS, "path;", context=5).matches
    assert match.before == ("export function load(path) {",)
    assert match.after == ("}",)


def test_a_bound_on_matches_and_the_number_of_all() -> None:
    """What there is no room for is counted all the same."""
    texts = {f"m{number}.py": "hit\n" * 10 for number in range(5)}
    result = search(texts, "hit", most=12)
    assert len(result.matches) == 12
    assert result.counts == dict.fromkeys(texts, 10)


def test_a_long_line_is_cut() -> None:
    """A minified file does not fill a prompt."""
    (match,) = search({"a.min.js": "x" * 100_000}, "xx").matches
    assert len(match.text) == MAX_LINE_CHARS


def test_a_pattern_that_never_ends_is_ended() -> None:
    """Backtracking without end costs the time limit and no more, and the result says so."""
    began = monotonic()
    texts = {"a.py": "hit\n", "b.py": "a" * 60 + "b"}
    result = search(texts, r"^(a|a|aa)+$|hit", time_limit_s=0.3)
    assert monotonic() - began < 5
    assert [match.path for match in result.matches] == ["a.py"]
    assert "ended at b.py" in result.note
