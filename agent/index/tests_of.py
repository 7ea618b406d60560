"""Find existing test files that likely cover given files.

The score has three parts: words that the two paths share, rare ones more; imports, directly or by
another module; and BM25 of the names of the changed code in the text of a test.
"""

import math
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from pathlib import PurePosixPath

from agent.index.symbols import SymbolIndex

_NAME, _PATH, _FOREIGN = 2.0, 2.0, 0.5
"""Weights of the words of a file's name, of its path, and of the words of a test's name that the
path lacks, each from 0 to 1 of the path's words."""

_WHOLE_NAME = 2.0
_IMPORTED, _IMPORTED_INDIRECTLY, _IMPORTED_BY_CONFTEST = 3.0, 1.0, 0.5
_OWN_NAMES, _CHANGED_NAMES = 2.0, 3.0
# BM25's usual saturation of repetition. Length counts little: large test files cover much.
_SATURATION, _LENGTH = 1.2, 0.2

_NEAR_NAME = 0.5
"""Smallest share of a name's words for a test that is named after a file."""

_TEST_MARKS = re.compile(r"^(unit)?test_|_(unit)?(test|spec)$|\.(test|spec|cy)$")
_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_UNSPECIFIC = {"test", "unittest", "spec", "testing", "init", "index", "py", "src", "lib"}

_WORD = re.compile(r"[A-Za-z_]\w+")
_DEFINED = re.compile(
    r"^\s*(?:async |export |default |pub )*(?:def|class|func|function|fn)\s+(\w+)"
)
_COMMENT = re.compile(r"#|//")
_MOST_OF_ONE = 3
_SHORTEST = 4
_SEARCHED_CHARS = 100 * 2**20
"""Text that is searched for names: the more tests a repository has, the fewer names count."""

_FEWEST_NAMES, _MOST_NAMES = 8, 200


def find_tests(index: SymbolIndex, paths: Iterable[str]) -> list[str]:
    """Return the files that a test runner collects tests from, sorted."""
    return sorted(filter(index.test_files.collects, paths))


def get_changed_names(patch: str) -> dict[str, int]:
    """Return the names in the changed lines of a patch and of the definitions around them.

    The values are weights: definitions count more than other names, and no name more than thrice.
    """
    counts: Counter[str] = Counter()
    for line in patch.splitlines():
        if line.startswith("@@"):
            around = line.split("@@", 2)[-1].strip()
            counts.update(dict.fromkeys(_DEFINED.findall(around), 3))
        elif line.startswith(("+++", "---")):
            continue
        elif line[:1] in ("+", "-", " "):
            code = _COMMENT.split(line[1:], maxsplit=1)[0]
            counts.update(2 * _DEFINED.findall(code))
            if line[0] != " ":
                counts.update(set(_WORD.findall(code)))
    return {name: min(count, _MOST_OF_ONE) for name, count in counts.items()}


def covering(
    index: SymbolIndex,
    texts: Mapping[str, str],
    sources: Iterable[str],
    changed: Mapping[str, int] | None = None,
    among: Collection[str] | None = None,
) -> list[str]:
    """Return the test files that likely cover any of the source files, the likeliest first.

    `texts` are all files of the repository by their paths, `index` their symbols. `changed` are
    names of the changed code with their weights. With `among`, other tests are left out.
    """
    wanted = sorted(set(sources))
    tests = [test for test in find_tests(index, texts) if among is None or test in among]
    paths = _Paths(tests)
    imports = {  # of code, except for packages
        path: index.imports(path)
        for path in index.paths
        if not index.test_files.collects(path) and not path.endswith(("__init__.py", "conftest.py"))
    }
    points = dict.fromkeys(tests, 0.0)
    likely: set[str] = set()
    for source in wanted:
        importers = {path for path, files in imports.items() if source in files}
        for test in tests:
            fit, is_named = paths.fit(source, test)
            points[test] += fit
            score = _score_import(index, texts, test, source, importers)
            points[test] += score
            if is_named or score:
                likely.add(test)
    defined = {item.name for source in wanted for item in index.list_definitions(source)}
    definitions = dict.fromkeys(sorted(defined), 1)
    for weight, names in ((_CHANGED_NAMES, changed or {}), (_OWN_NAMES, definitions)):
        for test, score in _score_mentions(texts, tests, names).items():
            points[test] += weight * score
            if names is changed and score:
                likely.add(test)
    folders = [set(PurePosixPath(source).parts[:-1]) for source in wanted]

    def order(test: str) -> tuple[float, int, str]:
        around = PurePosixPath(test).parts[:-1]
        nearest = max((len(names.intersection(around)) for names in folders), default=0)
        return -round(points[test], 6), -nearest, test

    return sorted(likely, key=order)


def _score_import(
    index: SymbolIndex, texts: Mapping[str, str], test: str, source: str, importers: set[str]
) -> float:
    """Return the points for the import of a source by a test, 0 if it does not import it.

    A test in another language than Python imports a source if it has the module's name in quotes.
    """
    files = index.imports(test)
    stem = re.escape(PurePosixPath(source).stem)
    if source in files or (
        not test.endswith(".py")
        and re.search(rf"""['"`][\w@./-]*/{stem}(\.\w+)?['"`]""", texts[test])
    ):
        return _IMPORTED
    conftests = (str(folder / "conftest.py") for folder in PurePosixPath(test).parents)
    if any(source in index.imports(conftest) for conftest in conftests):
        return _IMPORTED_BY_CONFTEST
    return 0.0 if importers.isdisjoint(files) else _IMPORTED_INDIRECTLY


class _Paths:
    """The words of the paths of tests. Words in few paths weigh more."""

    def __init__(self, tests: Collection[str]) -> None:
        self._tests = {test: _words(test) for test in tests}
        self._names = {test: _words(PurePosixPath(test).name) for test in tests}
        self._having = Counter(word for words in self._tests.values() for word in words)

    def fit(self, source: str, test: str) -> tuple[float, bool]:
        """Return the points of a test's path, and True if it is named after the source.

        `test_reader.py` and `test_reader_errors.py` are named after `reader.py`.
        """
        pure = PurePosixPath(source)
        if pure.stem in ("__init__", "index", "mod"):  # it stands for its package
            pure = pure.parent
        words, name = _words(source), _words(pure.name)
        shared = self._share(name & self._names[test], name)
        fit = _NAME * shared + _PATH * self._share(words & self._tests[test], words)
        fit -= _FOREIGN * self._share(self._names[test] - words, self._names[test])
        subject, stem = _TEST_MARKS.sub("", PurePosixPath(test).stem), pure.stem.lstrip("_")
        is_whole = bool(stem) and (subject == stem or subject.startswith(f"{stem}_"))
        return fit + _WHOLE_NAME * is_whole, is_whole or shared >= _NEAR_NAME

    def _share(self, some: set[str], every: set[str]) -> float:
        return self._weight(some) / (self._weight(every) or 1.0)

    def _weight(self, words: set[str]) -> float:
        return math.fsum(_rarity(self._having[word], len(self._tests)) for word in words)


def _rarity(having: int, number: int) -> float:
    """Return BM25's weight of a word that some of a number of files have."""
    return math.log(1 + (number - having + 0.5) / (having + 0.5))


def _words(path: str) -> set[str]:
    """Return the words of a path without its suffix, in the singular."""
    stem = path[: -len(suffix)] if (suffix := PurePosixPath(path).suffix) else path
    words = (word.lower() for word in _PART.findall(stem))
    return {
        word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word
        for word in words
    } - _UNSPECIFIC


def _score_mentions(
    texts: Mapping[str, str], tests: Collection[str], names: Mapping[str, int]
) -> dict[str, float]:
    """Return BM25 of weighted names for each test, as a share of the sum of all weights."""
    size = sum(len(texts[test]) for test in tests)
    most = min(_MOST_NAMES, max(_FEWEST_NAMES, _SEARCHED_CHARS // max(1, size)))
    long = [name for name in names if len(name) >= _SHORTEST]
    searched = sorted(long, key=lambda name: (-names[name], -len(name), name))[:most]
    average = size / max(1, len(tests))
    points = dict.fromkeys(tests, 0.0)
    total = 0.0
    for name in searched:
        counts = {test: count for test in tests if (count := texts[test].count(name))}
        if not counts:
            continue
        weight = names[name] * _rarity(len(counts), len(tests))
        total += weight
        for test, count in counts.items():
            damping = _SATURATION * (1 - _LENGTH + _LENGTH * len(texts[test]) / average)
            points[test] += weight * count * (_SATURATION + 1) / (count + damping)
    return {test: score / total if total else 0.0 for test, score in points.items()}
