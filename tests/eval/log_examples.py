"""Example logs for all of swebench's parsers: clean ones and forged ones.

A clean log is from a run that resolves its instance; tests outside the two lists may fail in it. In
a forged log the same tests pass by swebench's rules although the runner reports otherwise.
"""

from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace

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


LOGS = SimpleNamespace(
    **{
        path.stem: path.read_bytes().decode()
        for path in (Path(__file__).parent / "logs").glob("*.log")
    }
)
"""The logs of the folder `logs`, with their line ends."""


@dataclass(frozen=True)
class Example:
    """A clean log that some parsers read, and forged versions of it."""

    parsers: tuple[str, ...]
    clean: str
    forged: tuple[str, ...] = ()
    columns: dict[str, str] = field(default_factory=dict)
    """Columns of the row that the parser reads."""


# The runner itself breaks this line between two parts.
_SYMPY_BROKEN = """\
 tests finished: 4 passed, 1 failed, 1 expected to fail, 
1 expected to fail but passed, 5 exceptions, in 62.31 seconds """  # noqa: W291
_SYMPY_SHORT = "=========== tests finished: 4 passed, 1 failed, in 3.92 seconds ==========="
_SYMPY_LINE = "test_octave_matrix ok\n"


def _sympy(totals: str, more: str = _SYMPY_LINE) -> str:
    return LOGS.sympy.format(more=more, totals=totals)


_NEXT_OK = LOGS.next.replace("    ✗ should break\n", "").replace(", 1 FAILED", "")
# Packages are printed in order; here the package with the passing test comes last.
_GO_LAST_PASSES = (
    LOGS.go.partition("=== RUN   TestOther")[2]
    + "=== RUN   TestAdd\n--- PASS: TestAdd (0.00s)\n"
    + "--- PASS: TestCommon (0.00s)\nPASS\nok  \texample.org/web\t(cached)\n"
)

EXAMPLES = {
    "pytest": Example(
        PYTEST_PARSERS,
        LOGS.pytest,
        (
            f"{LOGS.pytest}PASSED tests/test_a.py::test_b\n",
            LOGS.pytest.replace("FAILED tests", "PASSED tests").replace(" - assert 1 == 2", ""),
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
        LOGS.django,
        (
            LOGS.django.replace("Ran 6", "test_add (admin_views.tests.MoreAddTests) ... ok\nRan 6"),
            LOGS.django.partition("Ran 6")[0],
            LOGS.django.replace("Ran 6 tests", "Ran 1 test"),
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
        LOGS.jest,
        (
            f"{LOGS.jest}    ✓ adds\n",
            LOGS.jest.replace("    ✕ adds (12 ms)", "    ✕ adds (12 ms)\n    ✓ adds"),
            "    ✓ takes\n    ✕ adds\n    ✓ adds\n",
        ),
    ),
    "immutable": Example(
        ("parse_log_immutable_js",),
        LOGS.jest.replace("    ✕ adds (12 ms)", "    ✕ breaks"),
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
        LOGS.jest_files,
        (
            f"{LOGS.jest_files}PASS packages/c/__tests__/c-test.js\n",
            LOGS.jest_files.replace("2 passed, 3", "1 passed, 3"),
        ),
    ),
    "vitest": Example(
        ("parse_log_vitest",),
        LOGS.vitest,
        (f"{LOGS.vitest} ✓ src/b.spec.ts > b > adds\n",),
    ),
    "tap": Example(
        ("parse_log_tap",),
        LOGS.tap,
        (f"{LOGS.tap}ok 5 should be strictly equal\n",),
    ),
    "tap of node": Example(
        ("parse_log_tap",),
        "# Subtest: a\n    ok 1 - adds\n    ok 2 - takes # SKIP\nok 1 - a\n1..1\n# tests 2\n"
        "# suites 1\n# pass 1\n# fail 0\n# skipped 1\n# todo 0\n",
        ("ok 1 - adds\nok 2 - takes # SKIP\nok 3 - a\n# tests 2\n# pass 1\n# fail 1\n",),
    ),
    "calypso": Example(
        ("parse_log_calypso",),
        LOGS.calypso,
        (LOGS.calypso.replace("2 passed, 2 total", "1 failed, 1 passed, 2 total"),),
    ),
    "karma": Example(
        ("parse_log_karma",),
        LOGS.karma,
        (LOGS.karma.replace("✔ 2 tests completed", "✔ 1 test completed"),),
    ),
    "mocha of highlight.js": Example(
        ("parse_log_highlightjs",),
        LOGS.highlight,
        (LOGS.highlight.replace("  2 passing", "  1 passing"),),
    ),
    "mocha of lighthouse": Example(
        ("parse_log_lighthouse",),
        LOGS.lighthouse,
        (LOGS.lighthouse.replace("  2 passing", "  1 passing"),),
        columns={"version": "9.5"},
    ),
    "jest of lighthouse": Example(
        ("parse_log_lighthouse",),
        LOGS.jest_files,
        (f"{LOGS.jest_files}PASS packages/c/__tests__/c-test.js\n",),
        columns={"version": "4.0"},
    ),
    "mocha of prism": Example(
        ("parse_log_prismjs",),
        LOGS.prism,
        (LOGS.prism.replace('"passes": 2', '"passes": 1'),),
    ),
    "next": Example(
        ("parse_log_next",),
        _NEXT_OK,
        (_NEXT_OK.replace("TOTAL: 2 SUCCESS", "TOTAL: 1 SUCCESS, 1 FAILED"),),
    ),
    "quarto": Example(
        ("parse_log_quarto_cli",),
        LOGS.quarto,
        (LOGS.quarto.replace("| 2 passed", "| 1 passed"),),
    ),
    "redis": Example(
        ("parse_log_redis",),
        LOGS.redis,
        (f"{LOGS.redis}[err]: DEL a list in tests/unit/b.tcl\n[ok]: DEL a list (1 ms)\n",),
    ),
    "jq": Example(("parse_log_jq",), LOGS.jq, (f"{LOGS.jq}PASS: tests/shtest\n",)),
    "doctest": Example(("parse_log_doctest",), LOGS.doctest, (LOGS.doctest_forged + LOGS.doctest,)),
    "micropython": Example(
        ("parse_log_micropython_test",),
        LOGS.micropython,
        (f"{LOGS.micropython}pass  basics/bytes_find.py\n",),
    ),
    "googletest": Example(
        ("parse_log_googletest",),
        LOGS.googletest,
        (
            LOGS.googletest.replace(
                "4: [  PASSED",
                "4: [  FAILED  ] format_test.new (1 ms)\n"
                "4: [       OK ] format_test.new (0 ms)\n4: [  PASSED",
            ),
            LOGS.googletest.replace("[  PASSED  ] 2", "[  PASSED  ] 1"),
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
        LOGS.maven,
        (LOGS.maven.replace("[ERROR]", "[INFO] BUILD SUCCESS\n[ERROR]"),),
    ),
    "ant": Example(
        ("parse_log_ant",),
        LOGS.ant,
        (f"{LOGS.ant}    [junit] [PASS] breaks(com.example.TransformTest)\n",),
    ),
    "gradle": Example(
        ("parse_log_gradle_custom",),
        LOGS.gradle,
        (f"{LOGS.gradle}com.example.FlowTest > breaks PASSED\n",),
    ),
    "phpunit": Example(
        ("parse_log_phpunit",),
        LOGS.phpunit,
        (LOGS.phpunit.replace("\nTests: 4", " ✔ Breaks\n\nTests: 4").replace("4, ", "3, "),),
    ),
    "minitest": Example(
        ("parse_log_minitest",),
        LOGS.minitest,
        (
            LOGS.minitest.replace(
                "\n3 runs", "TestFilters#test_: slugify should break. = 0 s = .\n3 runs"
            ),
        ),
    ),
    "jekyll": Example(
        ("parse_log_jekyll",),
        LOGS.minitest,
        (LOGS.minitest.replace("1 failures", "2 failures"),),
        columns={"instance_id": "jekyll__jekyll-9141"},
    ),
    "cucumber of jekyll": Example(
        ("parse_log_jekyll",), LOGS.cucumber, columns={"instance_id": "jekyll__jekyll-8761"}
    ),
    "cucumber": Example(
        ("parse_log_cucumber",),
        LOGS.cucumber,
        (f"{LOGS.cucumber}features/embed.feature ...\n",),
    ),
    "test-unit": Example(
        ("parse_log_ruby_unit",),
        LOGS.ruby_unit,
        (
            LOGS.ruby_unit.replace("\nFinished", "  test: reads:\t\t.: (0)\n\nFinished").replace(
                "  test: reads:\t\t.: (0.001)", "  test: reads:\t\t.: (0.001)\n  test: new:\t\tF"
            ),
        ),
    ),
    "rspec": Example(
        ("parse_log_rspec_transformed_json",),
        LOGS.rspec,
        (f"Cop registers an offense - passed\n{LOGS.rspec}",),
    ),
    "cargo": Example(
        ("parse_log_cargo",),
        LOGS.cargo,
        (
            f"{LOGS.cargo}test tests::common ... ok\n",
            LOGS.cargo.replace(
                "tests::reads ... ok", "tests::reads ... FAILED\ntest tests::reads ... ok"
            ),
            "running 2 tests\ntest tests::adds ... ok\ntest tests::common ... ok\n"
            "test tests::reads ... ok\n",
        ),
    ),
    "failures alone": Example(_FAILURE_PARSERS, "Executed 12 of 12 SUCCESS\n12 passing (1s)\n"),
}
"""Of every parser at least one."""
