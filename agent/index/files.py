"""The Python files of a repository, each of which is parsed when a question first needs it."""

import re
from collections.abc import Iterator, Mapping
from functools import cached_property

from agent.index.syntax import FileSyntax, parse
from agent.index.undisturbed import undisturbed
from agent.testfiles import read_test_files

# Looks ahead only, so that "a class" at the end of a comment does not hide the `def` after it.
_DECLARED = re.compile(r"\b(?:def|class)(?=[\s\\]+(\w+))")


class Files:
    """The Python files of one state of a repository.

    The text of a file tells whether it can matter for a name, in a thousandth of the time of
    parsing. A file with an unchanged text is not parsed again for another state.
    """

    def __init__(self, texts: Mapping[str, str]) -> None:
        """`texts` are all files of the repository by their paths."""
        python = sorted(path for path in texts if path.endswith((".py", ".pyi")))
        self.test_files = read_test_files(texts, texts.__getitem__)
        """The answer to which files are tests."""
        self.tests = frozenset(filter(self.test_files.owns, python))
        """The files that belong to a test suite."""
        code = [path for path in python if path not in self.tests]
        self.texts = {path: texts[path] for path in (*code, *sorted(self.tests))}
        """The Python files by their paths, code before tests."""
        self._parsed: dict[str, FileSyntax] = {}
        self._unparsed: dict[str, str] = {}

    def get(self, path: str) -> FileSyntax | None:
        """Return the syntax of a file, or None if it is not in the repository or does not parse."""
        if path not in self._parsed:
            self._parse(path)
        return self._parsed.get(path)

    def __getitem__(self, path: str) -> FileSyntax:
        """Return the syntax of a file that parses.

        Raises:
            KeyError: it does not parse, or is not in the repository.
        """
        if (file := self.get(path)) is None:
            raise KeyError(path)
        return file

    def unparsed(self, path: str) -> str | None:
        """Return in one line why this Python cannot parse a file, or None if it can."""
        self.get(path)
        return self._unparsed.get(path)

    def containing(self, name: str) -> Iterator[str]:
        """Yield the files whose text contains a name as a word."""
        literal = re.escape(name)
        word = re.compile(rf"{literal}\b(?<!\w{literal})")  # faster than `\b` at the beginning
        for path, text in self.texts.items():
            if name in text and word.search(text):
                yield path

    def declaring(self, name: str) -> list[str]:
        """Return the files that seem to have a class or function of a name."""
        return self._declaring.get(name, [])

    def _parse(self, path: str) -> None:
        if path not in self.texts or path in self._unparsed:
            return
        with undisturbed():
            found = parse(self.texts[path])
        if isinstance(found, FileSyntax):
            self._parsed[path] = found
        else:
            self._unparsed[path] = found

    @cached_property
    def _declaring(self) -> dict[str, list[str]]:
        declaring: dict[str, list[str]] = {}
        for path, text in self.texts.items():
            for name in dict.fromkeys(_DECLARED.findall(text)):
                declaring.setdefault(name, []).append(path)
        return declaring
