"""The files of a repository, each parsed when a question first needs it."""

import re
from collections.abc import Collection, Iterator, Mapping
from functools import cached_property

from agent.index.languages import name_of_language
from agent.index.references import ChainReference, VariableValue, read_references, read_variables
from agent.index.syntax import DefinitionSyntax, Import, Kind, Syntax, read_syntax
from agent.testfiles import read_test_files


class SourceFiles:
    """The files of one state of a repository.

    Searching the text of a file for a name takes a thousandth of the time of parsing. A file with
    an unchanged text is not parsed again for another state.
    """

    def __init__(self, texts: Mapping[str, str]) -> None:
        """`texts` are all files of the repository by their paths."""
        paths = sorted(path for path in texts if name_of_language(path))
        self.test_files = read_test_files(texts, texts.__getitem__)
        """The rules for test files."""
        self.tests = frozenset(filter(self.test_files.owns, paths))
        """The files that belong to a test suite."""
        code = [path for path in paths if path not in self.tests]
        self.texts = {path: texts[path] for path in (*code, *sorted(self.tests))}
        """The files by their paths, code before tests."""
        self._imports: dict[str, dict[str, list[Import]]] = {}
        self._definitions: dict[str, dict[str, list[DefinitionSyntax]]] = {}
        self._kinds: dict[str, dict[str, Kind]] = {}

    def syntax(self, path: str) -> Syntax:
        """Return the definitions and imports of a file."""
        return read_syntax(name_of_language(path) or "", self.texts[path])

    def references(
        self, path: str, names: Collection[str] | None = None
    ) -> Iterator[ChainReference]:
        """Yield the references of a file that end in one of the names, or all."""
        return read_references(name_of_language(path) or "", self.texts[path], names)

    def variables(self, path: str) -> Mapping[str, Collection[VariableValue]]:
        """Return the values of a file's variables by qualified name."""
        return read_variables(name_of_language(path) or "", self.texts[path])

    def find(self, path: str, qualified: str) -> list[DefinitionSyntax]:
        """Return the definitions of a file under a qualified name, which overloads share."""
        if path not in self.texts:
            return []
        if path not in self._definitions:
            by_name = self._definitions[path] = {}
            for definition in self.syntax(path).definitions:
                by_name.setdefault(definition.qualified, []).append(definition)
        return self._definitions[path].get(qualified, [])

    def kinds(self, path: str) -> Mapping[str, Kind]:
        """Return the kinds of the definitions of a file by qualified name."""
        if path not in self._kinds:
            syntax = self.syntax(path)
            kinds = {d.qualified: d.kind for d in reversed(syntax.definitions)}
            self._kinds[path] = {span.qualified: span.kind for span in syntax.spans} | kinds
        return self._kinds[path]

    def imports(self, path: str, name: str) -> list[Import]:
        """Return the imports of a file that bind a name; `*` for imports of all names."""
        if path not in self._imports:
            by_name = self._imports[path] = {}
            for statement in self.syntax(path).imports:
                by_name.setdefault(_local_name(statement, path), []).append(statement)
        return self._imports[path].get(name, [])

    def containing(self, name: str) -> Iterator[str]:
        """Yield the files whose text contains a name as a word."""
        literal = re.escape(name)
        word = re.compile(rf"{literal}\b(?<!\w{literal})")  # faster than `\b` at the start
        for path, text in self.texts.items():
            if name in text and word.search(text):
                yield path

    @cached_property
    def aliases(self) -> Mapping[str, set[str]]:
        """Other names that imports give to definitions, by the name of the definition."""
        aliases: dict[str, set[str]] = {}
        for path in self.texts:
            for statement in self.syntax(path).imports:
                if statement.alias and statement.name and statement.alias != statement.name:
                    aliases.setdefault(statement.name, set()).add(statement.alias)
        return aliases


def _local_name(statement: Import, path: str) -> str:
    if statement.alias or statement.name:
        return statement.alias or statement.name or ""
    if path.endswith(".go"):
        parts = [part for part in statement.module.split("/") if not re.fullmatch(r"v\d+", part)]
        return parts[-1] if parts else ""
    return statement.module.partition(".")[0]
