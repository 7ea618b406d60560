"""The formats of test logs, by the parser that reads them.

If a runner states how many tests it ran, forged results contradict that total. Runners differ
in the totals that they print, in whether a name identifies one test, and in whether a line can
be parsed by itself. So each rule of the audit applies only to the formats that meet its premise.

Lines of a failed network access may explain a failure but prove nothing, since most eval scripts
install packages that are installed already.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

_FAILURES = re.compile(
    "|".join(
        (
            # Messages of the C library, which Python, Ruby, PHP, apt, wget and others pass on.
            r"Temporary failure (?:in name resolution|resolving)",
            r"Name or service not known",
            r"Name does not resolve",
            r"getaddrinfo (?:EAI_AGAIN|ENOTFOUND|failed)",
            r"\b(?:ENETUNREACH|EAI_AGAIN)\b",
            r"Network is unreachable",
            r"No route to host",
            # pip and conda. Without retries, pip reports only that it found no version.
            r"Failed to establish a new connection",
            r"\bNameResolutionError\b",
            r"\(from versions: none\)",
            r"\bCondaHTTPError\b",
            # git, curl, cargo, composer. ssh has its own variant.
            r"[Cc]ould(?: not|n't) resolve (?:host|proxy)",
            r"unable to resolve host",
            r"spurious network error",
            # uv, Go, Maven and Gradle, yarn, Bundler.
            r"dns error: failed to lookup address",
            r"\bdial tcp: lookup \S+",
            r"\bdial tcp \S+: connect: network is unreachable",
            r"\bUnknownHostException\b|: Unknown host \S",
            r"trouble with your network connection",
            r"Network error while fetching|Could not reach host",
        )
    )
)
_SHOWN_CHARACTERS = 160


# pip's lines about one package. Most logs of a container without network have such lines.
_OF_PIP = re.compile(r"\(from versions: none\)|WARNING: Retrying \(Retry\(")


def find_network_failure(log: str, *, of_pip: bool = True) -> str:
    """Return the first line of a log that shows a network failure, shortened, or `""`.

    Without `of_pip`, lines of pip do not count.
    """
    for match in _FAILURES.finditer(log):
        begin = log.rfind("\n", 0, match.start()) + 1
        end = log.find("\n", match.end())
        whole = log[begin : end if end >= 0 else None]
        if of_pip or _OF_PIP.search(whole) is None:
            line = " ".join(whole.split())
            is_short = len(line) <= _SHOWN_CHARACTERS
            return line if is_short else " ".join(match[0].split())[:_SHOWN_CHARACTERS]
    return ""


_COLOUR = re.compile(r"\x1b\[[\d;]*[A-Za-z]")


@dataclass(frozen=True)
class Totals:
    """The wording of one runner's totals."""

    statement: re.Pattern[str]
    """Matches one statement. A log has one for each start of the runner."""
    added: re.Pattern[str]
    """Matches, within a statement, the numbers of tests that ran without a failure."""
    taken: re.Pattern[str] | None = None
    """Matches, within a statement, failed tests that the numbers of `added` include."""

    def count(self, log: str) -> int | None:
        """Return the tests that did not fail, summed over all statements of a log.

        Return None if the log has no statement.
        """
        statements = [match[0] for match in self.statement.finditer(log)]
        if not statements:
            return None
        text = "\n".join(statements)
        added = sum(map(int, self.added.findall(text)))
        return added - (sum(map(int, self.taken.findall(text))) if self.taken else 0)


@dataclass(frozen=True)
class LogFormat:
    """Format of the logs that one of swebench's parsers reads."""

    totals: tuple[Totals, ...] = ()
    passes: Totals | None = None
    """Totals of passed tests, if the runner counts passed and skipped tests separately."""
    has_totals: bool = False
    """True if every complete run ends with totals, so that a log without totals was cut short."""
    compared: Literal["tests", "passes"] = "tests"
    """The number to compare with totals: distinct passed tests, or lines that report a pass.

    Lines are counted if tests of the same name differ only by their position in the log.
    """
    tests: re.Pattern[str] = re.compile("")
    """Pattern of a test's name. Parsers also mistake other words for test names."""
    is_by_line: bool = True
    """True if a single line has a test's full name and its result."""
    one_name_one_test: bool = True
    """True if two results of one name, in one section, contradict each other."""
    names: re.Pattern[str] = re.compile("")
    """Matches the names to which `one_name_one_test` applies. Other names can repeat."""
    sections: re.Pattern[str] | None = None
    """Matches the first or last line of a file, package or program with its own names."""
    claims: re.Pattern[str] | None = None
    """Matches a result, for a parser that pairs results with commands."""
    commands: re.Pattern[str] | None = None
    """Matches a command, as traced by bash, that produces one result."""

    def count(self, log: str) -> int | None:
        """Return the tests that did not fail by the runner's totals, or None without totals."""
        counts = [totals.count(log) for totals in self.totals]
        stated = [count for count in counts if count is not None]
        return sum(stated) if stated else None


def of(log_parser: str) -> LogFormat:
    """Return the format of a parser. For an unknown parser no rule applies."""
    return FORMATS.get(log_parser, _BLOCKS)


def plain(log: str) -> str:
    """Remove the colours from a log."""
    return _COLOUR.sub("", log)


def _totals(statement: str, added: str, taken: str | None = None) -> Totals:
    flags = re.MULTILINE
    return Totals(
        re.compile(statement, flags),
        re.compile(added, flags),
        re.compile(taken, flags) if taken else None,
    )


_PYTEST_TOTALS = _totals(
    r"^=* ?\d+ [a-z -]+(?:, \d+ [a-z -]+)*,? in [\d.]+ ?s.*$",
    r"(\d+) (?:passed|xfailed|xpassed|skipped)",
)
_PYTEST_PASSES = _totals(_PYTEST_TOTALS.statement.pattern, r"(\d+) passed")
_UNITTEST_TOTALS = _totals(r"^Ran \d+ tests? in [\d.]+s$", r"Ran (\d+)")
# The runner breaks this text at 80 columns, between two of its parts.
_SYMPY_TOTALS = _totals(
    r"tests finished: \d+ passed,(?:\s+\d+\s[a-z\s]+,)*\s+in [\d.]+ seconds", r"(\d+) passed,"
)
_JEST_TESTS = _totals(r"^Tests: +\d.*$", r"(\d+) (?:passed|skipped|todo)")
_JEST_SUITES = _totals(r"^Test Suites: +\d.*$", r"(\d+) (?:passed|skipped)")
_MOCHA_TOTALS = _totals(r"^ *\d+ (?:passing|pending)\b", r"(\d+)")
_MOCHA_JSON_TOTALS = _totals(r'^ *"(?:passes|pending)": \d+,?$', r"(\d+)")
_KARMA_TOTALS = _totals(r"^[✔ℹ] \d+ tests? (?:completed|skipped)$", r"(\d+)")  # noqa: RUF001
_MINITEST_TOTALS = _totals(
    r"^\d+ (?:runs|tests), \d+ assertions, .*$", r"^(\d+)", r"(\d+) (?:failures|errors)"
)

_PYTHON = LogFormat((_PYTEST_TOTALS, _UNITTEST_TOTALS, _SYMPY_TOTALS), has_totals=True)
_PYTEST = replace(_PYTHON, passes=_PYTEST_PASSES, tests=re.compile(r".*::"))
# Django names a test with a description by the description alone, so two tests can share a name.
_DJANGO = replace(_PYTHON, names=re.compile(r".* \(.+\)$"))
_SYMPY = LogFormat(
    (_SYMPY_TOTALS,),
    has_totals=True,
    compared="passes",
    sections=re.compile(r"^\S+\.py\[\d+\]|tests finished: "),
)
_JEST = LogFormat(
    (_totals(_JEST_TESTS.statement.pattern, r"(\d+) passed"),),
    compared="passes",
    one_name_one_test=False,
)
_JEST_FILES = LogFormat((_JEST_SUITES,))
_BLOCKS = LogFormat(is_by_line=False)

PYTEST_PARSERS = tuple(
    f"parse_log_{name}"
    for name in (
        *("astroid", "astropy", "flask", "marshmallow", "matplotlib", "pvlib", "pydicom", "pylint"),
        *("pytest", "pytest_options", "pytest_v2", "pyvista", "requests", "scikit", "seaborn"),
        *("sphinx", "sqlfluff", "xarray"),
    )
)

FORMATS: Mapping[str, LogFormat] = {
    **dict.fromkeys(PYTEST_PARSERS, _PYTEST),
    "parse_log_django": _DJANGO,
    "parse_log_sympy": _SYMPY,
    # JavaScript.
    "parse_log_jest": _JEST,
    "parse_log_immutable_js": LogFormat((_JEST_TESTS,), one_name_one_test=False),
    "parse_log_jest_json": LogFormat((_JEST_TESTS,)),
    "parse_log_calypso": LogFormat((_JEST_TESTS,), is_by_line=False),
    "parse_log_carbon": _JEST_FILES,
    "parse_log_grommet": _JEST_FILES,
    "parse_log_react_pdf": _JEST_FILES,
    "parse_log_vitest": LogFormat(
        (_totals(r"^ *(?:Tests|Test Files) +\d.*$", r"(\d+) (?:passed|skipped|todo)"),)
    ),
    "parse_log_tap": LogFormat(
        (_totals(r"^ *# (?:pass|skip|skipped|todo|suites) +\d+$", r"(\d+)"),),
        compared="passes",
        one_name_one_test=False,
    ),
    "parse_log_karma": LogFormat((_KARMA_TOTALS,), is_by_line=False),
    "parse_log_highlightjs": LogFormat((_MOCHA_TOTALS,), is_by_line=False),
    "parse_log_lighthouse": LogFormat(
        (_MOCHA_TOTALS, _MOCHA_JSON_TOTALS, _JEST_SUITES), is_by_line=False
    ),
    "parse_log_prismjs": LogFormat((_MOCHA_JSON_TOTALS,), is_by_line=False),
    "parse_log_next": LogFormat(
        (_totals(r"^TOTAL: \d+ SUCCESS|^ *[│|] +Passing: +\d+", r"(\d+)"),), is_by_line=False
    ),
    "parse_log_quarto_cli": LogFormat(
        (
            _totals(
                r"^(?:ok|FAILED) \| \d+ passed.*$|^test result: .*$", r"(\d+) (?:passed|ignored)"
            ),
        ),
        is_by_line=False,
    ),
    # These print failures only.
    "parse_log_bpmn_js": _BLOCKS,
    "parse_log_chart_js": _BLOCKS,
    "parse_log_eslint": _BLOCKS,
    "parse_log_marked": _BLOCKS,
    "parse_log_openlayers": _BLOCKS,
    "parse_log_p5js": _BLOCKS,
    # C and C++.
    "parse_log_redis": LogFormat(one_name_one_test=False),
    "parse_log_jq": LogFormat((_totals(r"^# (?:PASS|SKIP|XFAIL): +\d+$", r"(\d+)"),)),
    "parse_log_doctest": replace(
        _BLOCKS, claims=re.compile(r"<doctest\b"), commands=re.compile(r"^\++ .*(?:-r|=)=?xml\b")
    ),
    "parse_log_micropython_test": LogFormat(
        (_totals(r"^\d+ tests? (?:passed|skipped)", r"(\d+)"),),
    ),
    "parse_log_googletest": LogFormat(
        (_totals(r"\[  PASSED  \] \d+ tests?", r"(\d+)"),),
        sections=re.compile(r"\[=+\] Running "),
    ),
    # Go, whose runner states no totals.
    "parse_log_gotest": LogFormat(sections=re.compile(r"^(?:ok|FAIL|\?)\s+\S+\s+[\d.(\[]")),
    # Java.
    "parse_log_maven": replace(
        _BLOCKS,
        claims=re.compile(r"BUILD (?:SUCCESS|FAILURE)$"),
        commands=re.compile(r"^\++ .*-Dtest="),
    ),
    "parse_log_ant": LogFormat(
        (
            _totals(
                r"\[junit\] Tests run: \d+, Failures: \d+, Errors: \d+",
                r"run: (\d+)",
                r"(?:Failures|Errors): (\d+)",
            ),
        )
    ),
    "parse_log_gradle_custom": LogFormat(
        (_totals(r"^\d+ tests? completed, \d+ failed", r"^(\d+)", r"(\d+) failed"),)
    ),
    # PHP.
    "parse_log_phpunit": LogFormat(
        (
            _totals(
                r"^OK \(\d+ tests?,|^Tests: \d+, .*$",
                r"(?:OK \(|Tests: )(\d+)",
                r"(?:Errors|Failures): (\d+)",
            ),
        ),
        is_by_line=False,
    ),
    # Ruby.
    "parse_log_minitest": LogFormat((_MINITEST_TOTALS,)),
    "parse_log_jekyll": LogFormat((_MINITEST_TOTALS,)),
    "parse_log_cucumber": LogFormat(),
    "parse_log_ruby_unit": LogFormat(
        (_MINITEST_TOTALS,), compared="passes", one_name_one_test=False
    ),
    "parse_log_rspec_transformed_json": LogFormat(
        (_totals(r"^\d+ examples?, \d+ failures?", r"^(\d+)", r"(\d+) failure"),),
        compared="passes",
        one_name_one_test=False,
    ),
    # Rust.
    "parse_log_cargo": LogFormat(
        (_totals(r"^test result: .*$", r"(\d+) passed"),),
        has_totals=True,
        compared="passes",
        sections=re.compile(r"^running \d+ tests?$"),
    ),
}
