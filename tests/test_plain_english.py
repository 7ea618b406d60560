"""The texts of the product avoid phrases that a native engineer would not write.

The number of such phrases only falls: lower `MOST` with each change that removes some.
"""

import ast
import io
import re
import subprocess
import tokenize
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PLACES = ("agent", "eval", "flows", "reports", "notebooks", "README.md", "CONTRIBUTING.md")
SUFFIXES = frozenset({".j2", ".md", ".py", ".sh", ".sql", ".yaml"})

MOST = 226
"""The largest number of phrases. Some are false alarms, such as `begin` in SQL."""

PHRASES = {
    "a clause as a noun": r"\b(of|from|for|by|with|on|and|returns?|about|than|is) (what|whose)\b",
    "a sentence that opens with a clause": r"^(What|Whether|Which|Who)\b(?!.*\?)",
    "a pronoun far from its noun": r"\b(the others|ones? that|those of|that of|those that)\b",
    "is no, for is not": r"\b(is|are|was|were) no (?!longer\b|more\b|one\b|other\b)\w+",
    "begin, beside, carry out": r"\b(begun|begins?|began|beside|carr(y|ies|ied|ying) (out|on))\b",
    "go on, for continue": r"\bgo(es|ing|ne)? on\b|\bwent on\b",
    "software that knows, hears, tells": r"\b(knows (no|only|that|it)|hears?|tells?|is told)\b",
    "nobody, somebody": r"\b(nobody|somebody|anybody|everybody|whoever)\b",
    "of its own": r"\bof (its|their) own\b",
    "too, at the end": r", too[.,;:]",
}
"""What is wrong, by a pattern that finds it."""


def list_texts(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the sentences of a file with their lines: strings and comments, or whole lines."""
    source = path.read_text(encoding="utf-8")
    if path.suffix != ".py":
        yield from enumerate(source.splitlines(), 1)
        return
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
            yield node.lineno, node.value
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string.lstrip("# ")


def list_phrases() -> Iterator[str]:
    """Yield each phrase with its place and its fault."""
    command = ["git", "ls-files", "--", *PLACES]
    output = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in output.splitlines():
        path = ROOT / name
        if path.suffix not in SUFFIXES or name.startswith("eval/tasks/"):
            continue
        for line, text in list_texts(path):
            for fault, pattern in PHRASES.items():
                if match := re.search(pattern, text):
                    yield f"{name}:{line}: {fault}: {match[0]}"


def test_there_are_not_more_odd_phrases() -> None:
    """The number of odd phrases is at most that of the last commit."""
    phrases = list(list_phrases())
    assert len(phrases) <= MOST, "\n".join(phrases)
