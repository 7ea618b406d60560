"""Find existing test files that likely cover given files, by names and imports."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath

from agent.index.symbols import SymbolIndex
from agent.paths import is_test_module

_NAMED = "is named after it"
_IMPORTED = "imports it"
_BY_CONFTEST = "its conftest imports it"
_INDIRECT = "imports what imports it"
_POINTS = {_NAMED: 4, _IMPORTED: 3, _BY_CONFTEST: 1, _INDIRECT: 1}

_TEST_MARKS = re.compile(r"^test_|_(test|spec)$|\.(test|spec|cy)$")


@dataclass(frozen=True, slots=True)
class Covering:
    """A test file and the reasons to expect that it covers a source file."""

    path: str
    points: int
    """A higher value is likelier. Meaningful only in comparison."""
    reasons: tuple[str, ...]
    """Reasons such as `imports it: src/reader.py`."""


def find_tests(paths: Iterable[str]) -> list[str]:
    """Return the files that a test runner collects tests from, sorted."""
    return sorted(path for path in paths if is_test_module(path))


def covering(
    index: SymbolIndex, texts: Mapping[str, str], sources: Iterable[str]
) -> list[Covering]:
    """Return the test files that likely cover any of the source files, the likeliest first.

    Of equally likely ones, those that share more folders with a source come first. `texts` are all
    files of the repository by their paths, `index` their symbols.
    """
    wanted = sorted(set(sources))
    indirect = _importers(index, wanted)
    found = []
    for test in find_tests(texts):
        reasons = [
            (reason, source)
            for source in wanted
            for reason in _reasons(index, texts, test, source, indirect[source])
        ]
        if reasons:
            points = sum(_POINTS[reason] for reason, _ in reasons)
            shown = tuple(f"{reason}: {source}" for reason, source in reasons)
            found.append(Covering(test, points, shown))
    folders = [_folders(source) for source in wanted]

    def order(covering: Covering) -> tuple[int, int, str]:
        own = _folders(covering.path)
        return -covering.points, -max(len(own & each) for each in folders), covering.path

    return sorted(found, key=order)


def _folders(path: str) -> set[str]:
    """Return the names of the folders around a file."""
    return set(PurePosixPath(path).parts[:-1])


def _importers(index: SymbolIndex, sources: Iterable[str]) -> dict[str, set[str]]:
    """Return the files, except tests and packages, that import each source."""
    imports = {
        path: set(index.imports(path))
        for path in index.paths
        if not is_test_module(path) and not path.endswith(("__init__.py", "conftest.py"))
    }
    return {
        source: {path for path, found in imports.items() if source in found} for source in sources
    }


def _reasons(
    index: SymbolIndex, texts: Mapping[str, str], test: str, source: str, indirect: set[str]
) -> list[str]:
    reasons = []
    if _is_named_after(test, source):
        reasons.append(_NAMED)
    imported = set(index.imports(test))
    if source in imported or _names_module(texts[test], test, source):
        reasons.append(_IMPORTED)
    elif any(source in index.imports(conftest) for conftest in _conftests(test)):
        reasons.append(_BY_CONFTEST)
    elif imported & indirect:
        reasons.append(_INDIRECT)
    return reasons


def _is_named_after(test: str, source: str) -> bool:
    """Return True if a test is named after a source file.

    `test_reader.py` and `test_reader_errors.py` are named after `reader.py`.
    """
    stem = PurePosixPath(source).stem
    if stem in ("__init__", "index"):
        stem = PurePosixPath(source).parent.name
    about = _TEST_MARKS.sub("", PurePosixPath(test).stem)
    stem = stem.lstrip("_")
    return bool(stem) and (about == stem or about.startswith(f"{stem}_"))


def _conftests(test: str) -> list[str]:
    return [str(folder / "conftest.py") for folder in PurePosixPath(test).parents]


def _names_module(text: str, test: str, source: str) -> bool:
    """Return True if a test that is not Python has the source's module name in quotes."""
    if test.endswith(".py"):
        return False
    stem = re.escape(PurePosixPath(source).stem)
    return re.search(rf"""['"`][\w@./-]*/{stem}(\.\w+)?['"`]""", text) is not None
