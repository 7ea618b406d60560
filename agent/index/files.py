"""The files of a repository whose symbols are known, each read when a question first needs it."""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cached_property

from agent.index.languages import name_of_language
from agent.index.syntax import DefinitionSyntax, Import, Kind, Syntax, read_syntax
from agent.index.uses import ChainReference, VariableBinding, read_bindings, read_references
from agent.testfiles import read_test_files


class SourceFiles:
    """The files of one state of a repository.

    The text of a file tells whether it can matter for a name, in a thousandth of the time of
    parsing. A file with an unchanged text is not read again for another state.
    """

    def __init__(self, texts: Mapping[str, str]) -> None:
        """`texts` are all files of the repository by their paths."""
        known = sorted(path for path in texts if name_of_language(path))
        self.test_files = read_test_files(texts, texts.__getitem__)
        """The answer to which files are tests."""
        self.tests = frozenset(filter(self.test_files.owns, known))
        """The files that belong to a test suite."""
        code = [path for path in known if path not in self.tests]
        self.texts = {path: texts[path] for path in (*code, *sorted(self.tests))}
        """The files by their paths, code before tests."""
        self._imports: dict[str, dict[str, list[Import]]] = {}
        self._named: dict[str, dict[str, list[DefinitionSyntax]]] = {}
        self._kinds: dict[str, dict[str, Kind]] = {}

    def syntax(self, path: str) -> Syntax:
        """Return the definitions and imports of a file."""
        return read_syntax(_language(path), self.texts[path])

    def bindings(self, path: str) -> Mapping[str, Sequence[VariableBinding]]:
        """Return the values of a file's variables by scope and name."""
        return read_bindings(_language(path), self.texts[path])

    def references(
        self, path: str, names: Collection[str] | None = None
    ) -> Iterator[ChainReference]:
        """Yield the references of a file that end in one of the names, or all."""
        return read_references(_language(path), self.texts[path], names)

    def find(self, path: str, qualified: str) -> list[DefinitionSyntax]:
        """Return the definitions of a file under a qualified name, which overloads share."""
        if path not in self._named:
            named = self._named[path] = {}
            for each in self.syntax(path).definitions:
                named.setdefault(each.qualified, []).append(each)
        return self._named[path].get(qualified, [])

    def kinds(self, path: str) -> Mapping[str, Kind]:
        """Return the kinds of the definitions of a file that hold others, by qualified name."""
        if path not in self._kinds:
            spans = self.syntax(path).spans
            self._kinds[path] = {span.qualified: span.kind for span in reversed(spans)}
        return self._kinds[path]

    def imports(self, path: str, name: str) -> list[Import]:
        """Return the imports of a file that bind a name; `*` for those of all names."""
        if path not in self._imports:
            found = self._imports[path] = {}
            for each in self.syntax(path).imports:
                found.setdefault(_local_name(each, path), []).append(each)
        return self._imports[path].get(name, [])

    def containing(self, name: str) -> Iterator[str]:
        """Yield the files whose text contains a name as a word."""
        literal = re.escape(name)
        word = re.compile(rf"{literal}\b(?<!\w{literal})")  # faster than `\b` at the beginning
        for path, text in self.texts.items():
            if name in text and word.search(text):
                yield path

    @cached_property
    def aliases(self) -> Mapping[str, set[str]]:
        """Other names that imports give to definitions, by the name of the definition."""
        found: dict[str, set[str]] = {}
        for path in self.texts:
            for each in self.syntax(path).imports:
                if each.alias and each.name and each.alias != each.name:
                    found.setdefault(each.name, set()).add(each.alias)
        return found


def _language(path: str) -> str:
    return name_of_language(path) or ""


def _local_name(each: Import, path: str) -> str:
    if each.alias or each.name:
        return each.alias or each.name or ""
    if path.endswith(".go"):
        parts = [part for part in each.module.split("/") if not re.fullmatch(r"v\d+", part)]
        return parts[-1] if parts else ""
    return each.module.partition(".")[0]
