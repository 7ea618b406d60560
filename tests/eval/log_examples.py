"""Example logs for all of swebench's parsers: clean ones and forged ones.

A clean log is from a run that resolves its instance; tests outside the two lists may fail in it. In
a forged log the same tests pass by swebench's rules although the runner reports otherwise.
"""

from dataclasses import dataclass, field

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


@dataclass(frozen=True)
class Example:
    """A clean log that some parsers read, and forged versions of it."""

    parsers: tuple[str, ...]
    clean: str
    forged: tuple[str, ...] = ()
    columns: dict[str, str] = field(default_factory=dict)
    """Columns of the row that the parser reads."""


_PYTEST = """\
============================= test session starts ==============================
collected 5 items

tests/test_a.py .F.sx                                                    [100%]

=================================== FAILURES ===================================
____________________________________ test_b ____________________________________
>       assert 1 == 2
E       assert 1 == 2
=========================== short test summary info ============================
PASSED tests/test_a.py::test_a
PASSED tests/test_a.py::test_c[x-1]
SKIPPED [1] tests/test_a.py:9: not here
XFAIL tests/test_a.py::test_e
FAILED tests/test_a.py::test_b - assert 1 == 2
==== 1 failed, 2 passed, 1 skipped, 1 xfailed, 3 warnings in 65.20s (0:01:05) ====
"""

_DJANGO = """\
Testing against Django installed in '/testbed/django' with up to 2 processes
Creating test database for alias 'default' ('file:memorydb_default')...
Operations to perform:
  Apply all migrations: admin, sites
Running migrations:
  Applying sites.0001_initial... OK
test_add (admin_views.tests.AddTests) ... ok
test_add (admin_views.tests.MoreAddTests) ... FAIL
test_skipped (admin_views.tests.AddTests) ... skipped 'not on this database'
test_described (admin_views.tests.AddTests)
A model can be added twice. ... FAIL
test_described_again (admin_views.tests.MoreAddTests)
A model can be added twice. ... ok
test_expected (admin_views.tests.AddTests) ... expected failure

======================================================================
FAIL: test_add (admin_views.tests.MoreAddTests)
----------------------------------------------------------------------
AssertionError: 1 != 2

----------------------------------------------------------------------
Ran 6 tests in 0.512s

FAILED (failures=2, skipped=1, expected failures=1)
Destroying test database for alias 'default' ('file:memorydb_default')...
"""

_SYMPY = """\
============================= test process starts ==============================
executable:         /opt/miniconda3/envs/testbed/bin/python  (3.9.19-final-0) [CPython]
architecture:       64-bit
cache:              no
ground types:       python
random seed:        31234567
hash randomization: on (PYTHONHASHSEED=123456)

sympy/printing/pretty/tests/test_pretty.py[4]
test_pretty_ascii_str ok
test_MatrixSymbol_printing F
test_issue_6285 f
test_any E                                                              [FAIL]

sympy/printing/tests/test_latex.py[3]
test_printmethod ok
test_MatrixSymbol_printing ok
test_latex_basic ok                                                         [OK]
{more}
________________________________________________________________________________
_ sympy/printing/pretty/tests/test_pretty.py:test_MatrixSymbol_printing ________
Traceback (most recent call last):
AssertionError

{totals}
DO *NOT* COMMIT!
"""
# The runner itself breaks this line between two parts.
_SYMPY_BROKEN = """\
 tests finished: 4 passed, 1 failed, 1 expected to fail, 
1 expected to fail but passed, 5 exceptions, in 62.31 seconds """  # noqa: W291
_SYMPY_SHORT = "=========== tests finished: 4 passed, 1 failed, in 3.92 seconds ==========="
_SYMPY_LINE = "test_octave_matrix ok\n"


def _sympy(totals: str, more: str = _SYMPY_LINE) -> str:
    return _SYMPY.format(more=more, totals=totals)


_JEST = """\
PASS packages/core/test/index.js
  core
    ✓ adds (3 ms)
    ○ skipped waits
  other
    ✓ adds

FAIL packages/more/test/index.js
  more
    ✕ adds (12 ms)
    ✓ takes (1 ms)
  again
    ✓ adds

  ● more > adds

    expect(received).toBe(expected)

Test Suites: 1 failed, 1 passed, 2 total
Tests:       1 failed, 1 skipped, 4 passed, 6 total
Snapshots:   0 total
Time:        2.345 s
"""
_JEST_FILES = """\
PASS packages/a/__tests__/a-test.js
PASS packages/b/__tests__/b-test.js (5.1 s)
FAIL packages/c/__tests__/c-test.js
  ● c > breaks

Test Suites: 1 failed, 2 passed, 3 total
Tests:       1 failed, 17 passed, 18 total
"""
_VITEST = """\
 ✓ src/a.spec.ts > a > adds 3ms
 ✓ src/a.spec.ts > a > takes
 × src/b.spec.ts > b > adds 4ms
 ↓ src/b.spec.ts > b > waits [skipped]

 Test Files  1 failed | 1 passed (2)
      Tests  1 failed | 2 passed | 1 skipped (4)
   Start at  10:00:00
"""
_TAP = """\
TAP version 13
# adds
ok 1 should be equal
ok 2 should be equal
# takes
not ok 3 should be strictly equal
  ---
    operator: equal
  ...
ok 4 should take

1..4
# tests 4
# pass  3
# fail  1
"""
_CALYPSO = """\
+ ./node_modules/.bin/jest client/lib/a
PASS client/lib/a/test/index.js
  a
    ✓ adds (3ms)
    ✓ takes

Test Suites: 1 passed, 1 total
Tests:       2 passed, 2 total
"""
_KARMA = """\
21 10 2024 10:00:00.000:INFO [karma-server]: Karma v6 server started
Starting browser ChromeHeadless
  render
    ✔ adds
    ✖ takes
    ✔ gives

SUMMARY:
✔ 2 tests completed
✖ 1 test failed
"""
_HIGHLIGHT = """\
  no indentation
    ✔ should render
    ✔ should escape (12ms)
    1) should fail

  2 passing (2s)
  1 failing

  1) no indentation
       should fail:
     AssertionError
"""
_LIGHTHOUSE = """\
running 2 test files
  audits
    ✔ should audit (12ms)
    ✔ should score
    1) should fail

  2 passing (2s)
  1 failing
"""
_PRISM = """\
+ ./node_modules/.bin/mocha tests/run.js --reporter json
{
  "stats": {
    "suites": 1,
    "tests": 3,
    "passes": 2,
    "pending": 0,
    "failures": 1
  },
  "failures": [
    {"fullTitle": "css breaks"}
  ],
  "passes": [
    {"fullTitle": "css is read"},
    {"fullTitle": "css is shown"}
  ]
}
"""
_NEXT = """\
+ xvfb-run npm test
21 10 2024 10:00:00.000:INFO [launcher]: Starting browser Chrome
  Button
    ✓ should render
    ✓ should click
    ✗ should break
TOTAL: 2 SUCCESS, 1 FAILED
"""
_NEXT_OK = _NEXT.replace("    ✗ should break\n", "").replace(", 1 FAILED", "")
_QUARTO = """\
[smoke] > render a.qmd > html ... \x1b[0m\x1b[32mok\x1b[0m (1s)
[unit] > yaml ... \x1b[0m\x1b[32mok\x1b[0m (5ms)
[unit] > broken ... \x1b[0m\x1b[31mFAILED\x1b[0m (5ms)

\x1b[31mFAILED\x1b[0m | 2 passed | 1 failed (2s)
"""
_REDIS = """\
[ready]: 4242
[testing]: unit/type/list
[ok]: LPUSH, RPUSH, LLENGTH (2 ms)
[ok]: DEL a list (0 ms)
[err]: LPOS basic usage in tests/unit/type/list.tcl
[ignore]: LMOVE: large memory flag not provided
[1/1 done]: unit/type/list (3 seconds)
"""
_JQ = """\
PASS: tests/mantest
FAIL: tests/shtest
PASS: tests/jqtest
============================================================================
Testsuite summary for jq 1.7
============================================================================
# TOTAL: 3
# PASS:  2
# SKIP:  0
# XFAIL: 0
# FAIL:  1
"""
_DOCTEST = """\
+ ./build/test-regression -s -r=xml
<?xml version="1.0" encoding="UTF-8"?>
<doctest binary="test-regression">
  <TestSuite>
    <TestCase name="issue 1">
      <SubCase name="reads"><Expression success="true"/></SubCase>
      <SubCase name="writes"><Expression success="true"/></SubCase>
      <SubCase name="breaks"><Expression success="false"/></SubCase>
    </TestCase>
  </TestSuite>
  <OverallResultsAsserts successes="2" failures="1"/>
</doctest>
"""
_DOCTEST_FORGED = """\
<doctest binary="x"><TestCase name="issue 1">
  <SubCase name="reads"><Expression success="true"/></SubCase>
  <SubCase name="writes"><Expression success="true"/></SubCase>
</TestCase></doctest>
"""
_MICROPYTHON = """\
pass  basics/bytes_add.py
FAIL  basics/bytes_find.py
skip  basics/class_delattr.py
pass  basics/bytes_gen.py
3 tests performed (57 individual testcases)
2 tests passed
1 tests skipped: class_delattr
1 tests failed: bytes_find
"""
_GOOGLETEST = """\
3: [==========] Running 3 tests from 1 test suite.
3: [ RUN      ] format_test.escape
3: [       OK ] format_test.escape (0 ms)
3: [ RUN      ] format_test.width
3: [  FAILED  ] format_test.width (1 ms)
3: [ RUN      ] format_test.fill
3: [       OK ] format_test.fill (0 ms)
3: [==========] 3 tests from 1 test suite ran. (1 ms total)
3: [  PASSED  ] 2 tests.
3: [  FAILED  ] 1 test, listed below:
4: [==========] Running 1 test from 1 test suite.
4: [       OK ] format_test.width (0 ms)
4: [  PASSED  ] 1 test.
"""
_GO = """\
=== RUN   TestAdd
--- PASS: TestAdd (0.00s)
=== RUN   TestCommon
--- PASS: TestCommon (0.01s)
=== RUN   TestTree
=== RUN   TestTree/leaf
--- PASS: TestTree (0.00s)
    --- PASS: TestTree/leaf (0.00s)
PASS
ok  \texample.org/web/tree\t0.123s
=== RUN   TestOther
--- FAIL: TestOther (0.00s)
=== RUN   TestCommon
    common_test.go:12: no
--- FAIL: TestCommon (0.00s)
FAIL
FAIL\texample.org/web/other\t0.010s
?   \texample.org/web/none\t[no test files]
FAIL
"""
# Packages are printed in order; here the package with the passing test comes last.
_GO_LAST_PASSES = (
    _GO.partition("=== RUN   TestOther")[2]
    + "=== RUN   TestAdd\n--- PASS: TestAdd (0.00s)\n"
    + "--- PASS: TestCommon (0.00s)\nPASS\nok  \texample.org/web\t(cached)\n"
)
_MAVEN = """\
+ mvnd test -B -pl gson -Dtest=com.example.JsonTest#reads
[INFO] Tests run: 1, Failures: 0, Errors: 0, Skipped: 0
[INFO] BUILD SUCCESS
+ mvnd test -B -pl gson -Dtest=com.example.JsonTest#writes
[INFO] BUILD SUCCESS
+ mvnd test -B -pl gson -Dtest=com.example.JsonTest#breaks
[ERROR] Tests run: 1, Failures: 1, Errors: 0, Skipped: 0
[INFO] BUILD FAILURE
"""
_ANT = """\
    [junit] Running com.example.TransformTest
    [junit] [PASS] transforms(com.example.TransformTest)
    [junit] [FAIL] breaks(com.example.TransformTest)
    [junit] [PASS] reads(com.example.TransformTest)
    [junit] Tests run: 3, Failures: 1, Errors: 0, Skipped: 0, Time elapsed: 1.2 sec
"""
_GRADLE = """\
> Task :core:test
com.example.FlowTest > maps PASSED
com.example.FlowTest > breaks FAILED
com.example.FlowTest > filters PASSED
3 tests completed, 1 failed
"""
_PHPUNIT = """\
PHPUnit 10.5 by Sebastian Bergmann and contributors.

Carbon (Tests\\Carbon)
 ✔ Adds days
 ✘ Breaks
 ✔ Adds months with data set "leap year"
 ↩ Needs an extension

Tests: 4, Assertions: 9, Failures: 1, Skipped: 1.
"""
_MINITEST = """\
TestFilters#test_: markdownify should convert. = 0.02 s = .
TestFilters#test_: slugify should break. = 0.00 s = F
TestFilters#test_: jsonify should convert. = 0.00 s = .

3 runs, 12 assertions, 1 failures, 0 errors, 0 skips
"""
_CUCUMBER = """\
features/collections.feature ......
features/drafts.feature ....
features/embed.feature ..F-

3 scenarios (1 failed, 2 passed)
"""
_RUBY_UNIT = """\
BufferTest:
  test: reads:\t\t.: (0.001)
  test: writes:\t\t.: (0.001)
OtherTest:
  test: reads:\t\tF
===============================================================================
Failure: test: reads(OtherTest)
===============================================================================
: (0.003)
  test: breaks:\t\t.: (0.001)

Finished in 0.012 seconds.
4 tests, 9 assertions, 1 failures, 0 errors, 0 pendings, 0 omissions, 0 notifications
"""
_RSPEC = """\
Cop registers an offense - passed
Cop ignores comments - passed
Cop registers an offense - failed
Cop registers an offense - passed
4 examples, 1 failure
"""
_CARGO = """\
    Finished test [unoptimized + debuginfo] target(s) in 1.2s
     Running unittests src/lib.rs (target/debug/deps/x-1)

running 3 tests
test tests::adds ... ok
test tests::ignored ... ignored
test tests::common ... FAILED

failures:
    tests::common

test result: FAILED. 1 passed; 1 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.01s

     Running tests/cli.rs (target/debug/deps/cli-1)

running 2 tests
test tests::common ... ok
test tests::reads ... ok

test result: ok. 2 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s
"""

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
