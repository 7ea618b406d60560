"""Results of test programs in their own formats."""

import json

import pytest

from agent.runners.reports import FORMATS, Format, NamesByResult, Unreadable, parse

GO = [
    {"Action": "start", "Package": "m/a"},
    {"Action": "pass", "Package": "m/a", "Test": "TestOne"},
    {"Action": "fail", "Package": "m/a", "Test": "TestTwo/deep"},
    {"Action": "skip", "Package": "m/a", "Test": "TestThree"},
    {"Action": "fail", "Package": "m/a"},
    {"Action": "fail", "Package": "m/dead"},
    {"Action": "skip", "Package": "m/empty"},
]

UNITTEST = """\
test_a (app.tests.A) ... ok
test_b (app.tests.A)
Has a description. ... FAIL
test_c (app.tests.A) ... skipped 'why'
test_d (app.tests.A) ... ERROR

======================================================================
ERROR: test_d (app.tests.A)
======================================================================
ERROR: setUpClass (app.tests.B)
----------------------------------------------------------------------
Ran 4 tests in 0.001s

FAILED (failures=1, errors=2, skipped=1)
"""

CARGO = """\
     Running unittests src/lib.rs (target/debug/deps/a-0123)

running 3 tests
test tests::one ... ok
test tests::two - should panic ... FAILED
test tests::three ... ignored, slow

test result: FAILED. 1 passed; 1 failed; 1 ignored
   Doc-tests a

test src/lib.rs - add (line 3) ... ok

test result: ok. 1 passed
"""

TAP = """\
TAP version 13
# Subtest: outer
    # Subtest: inner
    ok 1 - inner
    not ok 2 - other
      name: 'AssertionError'
    not ok 3 - third
      name: 'TypeError'
    1..3
not ok 1 - outer
ok 2 - later # SKIP not yet
ok 3 - last
1..3
"""

JEST = {
    "testResults": [
        {
            "name": "/testbed/a.test.js",
            "status": "failed",
            "assertionResults": [
                {"fullName": "a works", "status": "passed"},
                {"fullName": "a fails", "status": "failed"},
                {"fullName": "a waits", "status": "pending"},
            ],
        },
        {"name": "/tmp/x/repo/b.test.js", "status": "failed", "assertionResults": []},
    ]
}

JUNIT = """\
<?xml version="1.0"?>
<testsuite name="a.ATest" tests="3">
  <testcase name="works" classname="a.ATest"/>
  <testcase name="fails" classname="a.ATest"><failure message="no">at line 3</failure></testcase>
  <testcase name="waits" classname="a.ATest"><skipped/></testcase>
</testsuite>
<?xml version="1.0"?>
<testsuites><testsuite name="b" tests="1">
  <testcase name="dies" classname="b"><error message="null"/></testcase>
</testsuite></testsuites>
"""

RSPEC = {
    "messages": ["\nAn error occurred while loading ./spec/b_spec.rb.\nRuntimeError:\n  broken\n"],
    "examples": [
        {"file_path": "./spec/a_spec.rb", "full_description": "A works", "status": "passed"},
        {"file_path": "./spec/a_spec.rb", "full_description": "A waits", "status": "pending"},
        {
            "file_path": "./spec/a_spec.rb",
            "full_description": "A fails",
            "status": "failed",
            "exception": {
                "class": "RSpec::Expectations::ExpectationNotMetError",
                "message": "\nexpected: 2\n     got: 1\n",
            },
        },
        {
            "file_path": "./spec/a_spec.rb",
            "full_description": "A breaks",
            "status": "failed",
            "exception": {"class": "ArgumentError", "message": "no"},
        },
    ],
    "summary": {"example_count": 4, "errors_outside_of_examples_count": 1},
}

MOCHA = {
    "passes": [{"fullTitle": "a works", "file": "/testbed/test/a.js"}],
    "failures": [{"fullTitle": "a fails", "file": "/testbed/test/a.js"}],
    "pending": [{"fullTitle": "a waits", "file": "/testbed/test/a.js"}],
}


@pytest.mark.parametrize(
    ("kind", "text", "found"),
    [
        (
            "go",
            "# stray line\n" + "\n".join(map(json.dumps, GO)),
            NamesByResult(
                ["m/a.TestOne"],
                ["m/a.TestTwo/deep"],
                ["m/dead"],
                ["m/a.TestThree"],
                text="# stray line\n",
            ),
        ),
        (
            "unittest text",
            UNITTEST,
            NamesByResult(
                ["test_a (app.tests.A)"],
                ["test_b (app.tests.A)"],
                ["test_d (app.tests.A)", "setUpClass (app.tests.B)"],
                ["test_c (app.tests.A)"],
            ),
        ),
        (
            "cargo",
            CARGO,
            NamesByResult(
                ["src/lib.rs::tests::one", "doc a::src/lib.rs - add (line 3)"],
                ["src/lib.rs::tests::two"],
                [],
                ["src/lib.rs::tests::three"],
            ),
        ),
        (
            "tap",
            TAP,
            NamesByResult(
                ["outer > inner", "last"],
                ["outer > other"],
                ["outer > third"],
                ["later"],
                {
                    "outer > other": "      name: 'AssertionError'",
                    "outer > third": "      name: 'TypeError'",
                },
                TAP,
            ),
        ),
        (
            "jest",
            json.dumps(JEST),
            NamesByResult(
                ["a.test.js a works"],
                ["a.test.js a fails"],
                ["b.test.js"],
                ["a.test.js a waits"],
            ),
        ),
        (
            "junit",
            JUNIT,
            NamesByResult(
                ["a.ATest.works"],
                ["a.ATest.fails"],
                ["b.dies"],
                ["a.ATest.waits"],
                {"a.ATest.fails": "no\nat line 3", "b.dies": "null"},
            ),
        ),
        (
            "mocha",
            json.dumps(MOCHA),
            NamesByResult(["test/a.js a works"], ["test/a.js a fails"], [], ["test/a.js a waits"]),
        ),
        (
            "rspec",
            json.dumps(RSPEC),
            NamesByResult(
                ["spec/a_spec.rb A works"],
                ["spec/a_spec.rb A fails"],
                ["spec/a_spec.rb A breaks", "spec/b_spec.rb"],
                ["spec/a_spec.rb A waits"],
                {
                    "spec/a_spec.rb A fails": (
                        "RSpec::Expectations::ExpectationNotMetError\nexpected: 2\n     got: 1"
                    ),
                    "spec/a_spec.rb A breaks": "ArgumentError\nno",
                    "spec/b_spec.rb": str(RSPEC["messages"][0]).strip(),
                },
            ),
        ),
    ],
)
def test_each_test_is_named_with_its_result(kind: Format, text: str, found: NamesByResult) -> None:
    """Names are the same in every workspace, and a file or package that died is an error."""
    assert parse(kind, text) == found


@pytest.mark.parametrize("kind", sorted(FORMATS))
@pytest.mark.parametrize("text", ["", "all tests passed", "[1]"])
def test_output_without_results_is_unreadable(kind: Format, text: str) -> None:
    """A program that did not run its tests proves nothing."""
    with pytest.raises(Unreadable):
        parse(kind, text)


@pytest.mark.parametrize(
    "text",
    ['<testsuite tests="2"><testcase name="a"/></testsuite>', "<!DOCTYPE a><testsuite/>"],
)
def test_a_report_that_contradicts_itself_is_unreadable(text: str) -> None:
    """The number of tests has to be that of the names, and XML declares no entities."""
    with pytest.raises(Unreadable):
        parse("junit", text)
