"""Example logs for all of swebench's parsers: clean ones and forged ones.

A clean log is from a run that resolves its instance; tests outside the two lists may fail in it. In
a forged log the same tests pass by swebench's rules although the runner reports otherwise.
"""

from dataclasses import dataclass, field
from pathlib import Path

from eval.log_formats import PYTEST_PARSERS

_JEST_FILE_PARSERS = ("parse_log_carbon", "parse_log_grommet", "parse_log_react_pdf")
_FAILURE_PARSERS = (
    "parse_log_bpmn_js",
    "parse_log_chart_js",
    "parse_log_eslint",
    "parse_log_marked",
    "parse_log_openlayers",
    "parse_log_p5js",
)


def _read(name: str) -> str:
    """Return a log of the folder `logs`."""
    with (Path(__file__).parent / "logs" / f"{name}.log").open(
        encoding="utf-8", newline=""
    ) as file:
        return file.read()


@dataclass(frozen=True)
class Example:
    """A clean log that some parsers read, and forged versions of it."""

    parsers: tuple[str, ...]
    clean: str
    forged: tuple[str, ...] = ()
    columns: dict[str, str] = field(default_factory=dict)
    """Columns of the row that the parser reads."""


_PYTEST = _read("pytest")

_DJANGO = _read("django")

_SYMPY = _read("sympy")
# The runner itself breaks this line between two parts.
_SYMPY_BROKEN = """\
 tests finished: 4 passed, 1 failed, 1 expected to fail, 
1 expected to fail but passed, 5 exceptions, in 62.31 seconds """  # noqa: W291
_SYMPY_SHORT = "=========== tests finished: 4 passed, 1 failed, in 3.92 seconds ==========="
_SYMPY_LINE = "test_octave_matrix ok\n"


def _sympy(totals: str, more: str = _SYMPY_LINE) -> str:
    return _SYMPY.format(more=more, totals=totals)


_JEST = _read("jest")
_JEST_FILES = _read("jest_files")
_VITEST = _read("vitest")
_TAP = _read("tap")
_CALYPSO = _read("calypso")
_KARMA = _read("karma")
_HIGHLIGHT = _read("highlight")
_LIGHTHOUSE = _read("lighthouse")
_PRISM = _read("prism")
_NEXT = _read("next")
_NEXT_OK = _NEXT.replace("    ✗ should break\n", "").replace(", 1 FAILED", "")
_QUARTO = _read("quarto")
_REDIS = _read("redis")
_JQ = _read("jq")
_DOCTEST = _read("doctest")
_DOCTEST_FORGED = _read("doctest_forged")
_MICROPYTHON = _read("micropython")
_GOOGLETEST = _read("googletest")
_GO = _read("go")
# Packages are printed in order; here the package with the passing test comes last.
_GO_LAST_PASSES = (
    _GO.partition("=== RUN   TestOther")[2]
    + "=== RUN   TestAdd\n--- PASS: TestAdd (0.00s)\n"
    + "--- PASS: TestCommon (0.00s)\nPASS\nok  \texample.org/web\t(cached)\n"
)
_MAVEN = _read("maven")
_ANT = _read("ant")
_GRADLE = _read("gradle")
_PHPUNIT = _read("phpunit")
_MINITEST = _read("minitest")
_CUCUMBER = _read("cucumber")
_RUBY_UNIT = _read("ruby_unit")
_RSPEC = _read("rspec")
_CARGO = _read("cargo")

EXAMPLES = {
    "pytest": Example(
        PYTEST_PARSERS,
        _PYTEST,
        (
            f"{_PYTEST}PASSED tests/test_a.py::test_b\n",
            _PYTEST.replace("FAILED tests", "PASSED tests").replace(" - assert 1 == 2", ""),
            # Printed by code that then ends the run at once.
            "collected 3 items\nPASSED tests/test_a.py::test_a\nPASSED tests/test_a.py::test_b\n"
            "PASSED tests/test_a.py::test_c[x-1]\n",
        ),
    ),
    "pytest, quietly": Example(
        PYTEST_PARSERS,
        "PASSED tests/test_a.py::test_a\nPASSED tests/test_a.py::test_b\n2 passed in 0.12s\n",
        ("PASSED tests/test_a.py::test_a\nPASSED tests/test_a.py::test_b\n1 passed in 0.12s\n",),
    ),
    "django": Example(
        ("parse_log_django",),
        _DJANGO,
        (
            _DJANGO.replace("Ran 6", "test_add (admin_views.tests.MoreAddTests) ... ok\nRan 6"),
            _DJANGO.partition("Ran 6")[0],
            _DJANGO.replace("Ran 6 tests", "Ran 1 test"),
        ),
    ),
    "sympy": Example(
        ("parse_log_sympy",),
        _sympy(_SYMPY_SHORT),
        (
            _sympy(_SYMPY_SHORT, f"{_SYMPY_LINE}test_printmethod ok\n"),
            _sympy(f"{_SYMPY_SHORT}\ntest_any ok"),
            _sympy(_SYMPY_SHORT).replace("test_any E", "test_any F\ntest_any ok\ntest_x E"),
            _sympy(""),
        ),
    ),
    "sympy, totals of two lines": Example(
        ("parse_log_sympy",),
        _sympy(_SYMPY_BROKEN),
        (_sympy(_SYMPY_BROKEN.replace("4 passed", "3 passed")),),
    ),
    "jest": Example(
        ("parse_log_jest",),
        _JEST,
        (
            f"{_JEST}    ✓ adds\n",
            _JEST.replace("    ✕ adds (12 ms)", "    ✕ adds (12 ms)\n    ✓ adds"),
            "    ✓ takes\n    ✕ adds\n    ✓ adds\n",
        ),
    ),
    "immutable": Example(
        ("parse_log_immutable_js",),
        _JEST.replace("    ✕ adds (12 ms)", "    ✕ breaks"),
        ("    ✓ adds\n    ✓ takes\nTests:       1 failed, 1 passed, 2 total\n",),
        columns={"instance_id": "immutable-js__immutable-js-2006"},
    ),
    "jest as JSON": Example(
        ("parse_log_jest_json",),
        "[PASSED] core adds\n[FAILED] core breaks\n[PASSED] other adds\n",
        ("[FAILED] core adds\n[PASSED] other adds\n[PASSED] core adds\n",),
    ),
    "jest files": Example(
        _JEST_FILE_PARSERS,
        _JEST_FILES,
        (
            f"{_JEST_FILES}PASS packages/c/__tests__/c-test.js\n",
            _JEST_FILES.replace("2 passed, 3", "1 passed, 3"),
        ),
    ),
    "vitest": Example(
        ("parse_log_vitest",),
        _VITEST,
        (f"{_VITEST} ✓ src/b.spec.ts > b > adds\n",),
    ),
    "tap": Example(
        ("parse_log_tap",),
        _TAP,
        (f"{_TAP}ok 5 should be strictly equal\n",),
    ),
    "tap of node": Example(
        ("parse_log_tap",),
        "# Subtest: a\n    ok 1 - adds\n    ok 2 - takes # SKIP\nok 1 - a\n1..1\n# tests 2\n"
        "# suites 1\n# pass 1\n# fail 0\n# skipped 1\n# todo 0\n",
        ("ok 1 - adds\nok 2 - takes # SKIP\nok 3 - a\n# tests 2\n# pass 1\n# fail 1\n",),
    ),
    "calypso": Example(
        ("parse_log_calypso",),
        _CALYPSO,
        (_CALYPSO.replace("2 passed, 2 total", "1 failed, 1 passed, 2 total"),),
    ),
    "karma": Example(
        ("parse_log_karma",),
        _KARMA,
        (_KARMA.replace("✔ 2 tests completed", "✔ 1 test completed"),),
    ),
    "mocha of highlight.js": Example(
        ("parse_log_highlightjs",),
        _HIGHLIGHT,
        (_HIGHLIGHT.replace("  2 passing", "  1 passing"),),
    ),
    "mocha of lighthouse": Example(
        ("parse_log_lighthouse",),
        _LIGHTHOUSE,
        (_LIGHTHOUSE.replace("  2 passing", "  1 passing"),),
        columns={"version": "9.5"},
    ),
    "jest of lighthouse": Example(
        ("parse_log_lighthouse",),
        _JEST_FILES,
        (f"{_JEST_FILES}PASS packages/c/__tests__/c-test.js\n",),
        columns={"version": "4.0"},
    ),
    "mocha of prism": Example(
        ("parse_log_prismjs",),
        _PRISM,
        (_PRISM.replace('"passes": 2', '"passes": 1'),),
    ),
    "next": Example(
        ("parse_log_next",),
        _NEXT_OK,
        (_NEXT_OK.replace("TOTAL: 2 SUCCESS", "TOTAL: 1 SUCCESS, 1 FAILED"),),
    ),
    "quarto": Example(
        ("parse_log_quarto_cli",),
        _QUARTO,
        (_QUARTO.replace("| 2 passed", "| 1 passed"),),
    ),
    "redis": Example(
        ("parse_log_redis",),
        _REDIS,
        (f"{_REDIS}[err]: DEL a list in tests/unit/b.tcl\n[ok]: DEL a list (1 ms)\n",),
    ),
    "jq": Example(("parse_log_jq",), _JQ, (f"{_JQ}PASS: tests/shtest\n",)),
    "doctest": Example(("parse_log_doctest",), _DOCTEST, (_DOCTEST_FORGED + _DOCTEST,)),
    "micropython": Example(
        ("parse_log_micropython_test",),
        _MICROPYTHON,
        (f"{_MICROPYTHON}pass  basics/bytes_find.py\n",),
    ),
    "googletest": Example(
        ("parse_log_googletest",),
        _GOOGLETEST,
        (
            _GOOGLETEST.replace(
                "4: [  PASSED",
                "4: [  FAILED  ] format_test.new (1 ms)\n"
                "4: [       OK ] format_test.new (0 ms)\n4: [  PASSED",
            ),
            _GOOGLETEST.replace("[  PASSED  ] 2", "[  PASSED  ] 1"),
        ),
    ),
    "go": Example(
        ("parse_log_gotest",),
        _GO_LAST_PASSES,
        (
            _GO_LAST_PASSES.replace(
                "--- PASS: TestAdd", "--- FAIL: TestAdd (0s)\n--- PASS: TestAdd"
            ),
        ),
    ),
    "maven": Example(
        ("parse_log_maven",),
        _MAVEN,
        (_MAVEN.replace("[ERROR]", "[INFO] BUILD SUCCESS\n[ERROR]"),),
    ),
    "ant": Example(
        ("parse_log_ant",),
        _ANT,
        (f"{_ANT}    [junit] [PASS] breaks(com.example.TransformTest)\n",),
    ),
    "gradle": Example(
        ("parse_log_gradle_custom",),
        _GRADLE,
        (f"{_GRADLE}com.example.FlowTest > breaks PASSED\n",),
    ),
    "phpunit": Example(
        ("parse_log_phpunit",),
        _PHPUNIT,
        (_PHPUNIT.replace("\nTests: 4", " ✔ Breaks\n\nTests: 4").replace("4, ", "3, "),),
    ),
    "minitest": Example(
        ("parse_log_minitest",),
        _MINITEST,
        (
            _MINITEST.replace(
                "\n3 runs", "TestFilters#test_: slugify should break. = 0 s = .\n3 runs"
            ),
        ),
    ),
    "jekyll": Example(
        ("parse_log_jekyll",),
        _MINITEST,
        (_MINITEST.replace("1 failures", "2 failures"),),
        columns={"instance_id": "jekyll__jekyll-9141"},
    ),
    "cucumber of jekyll": Example(
        ("parse_log_jekyll",), _CUCUMBER, columns={"instance_id": "jekyll__jekyll-8761"}
    ),
    "cucumber": Example(
        ("parse_log_cucumber",),
        _CUCUMBER,
        (f"{_CUCUMBER}features/embed.feature ...\n",),
    ),
    "test-unit": Example(
        ("parse_log_ruby_unit",),
        _RUBY_UNIT,
        (
            _RUBY_UNIT.replace("\nFinished", "  test: reads:\t\t.: (0)\n\nFinished").replace(
                "  test: reads:\t\t.: (0.001)", "  test: reads:\t\t.: (0.001)\n  test: new:\t\tF"
            ),
        ),
    ),
    "rspec": Example(
        ("parse_log_rspec_transformed_json",),
        _RSPEC,
        (f"Cop registers an offense - passed\n{_RSPEC}",),
    ),
    "cargo": Example(
        ("parse_log_cargo",),
        _CARGO,
        (
            f"{_CARGO}test tests::common ... ok\n",
            _CARGO.replace(
                "tests::reads ... ok", "tests::reads ... FAILED\ntest tests::reads ... ok"
            ),
            "running 2 tests\ntest tests::adds ... ok\ntest tests::common ... ok\n"
            "test tests::reads ... ok\n",
        ),
    ),
    "failures alone": Example(_FAILURE_PARSERS, "Executed 12 of 12 SUCCESS\n12 passing (1s)\n"),
}
"""Of every parser at least one."""
