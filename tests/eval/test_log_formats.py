"""The audit of logs in all of swebench's formats: no false positives, no false negatives."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime

import pytest

from eval import harness, log_formats
from eval.audit import Audit, audit
from eval.types import Evaluation, Instance
from tests.eval.log_examples import EXAMPLES, Example

MakeInstance = Callable[..., Instance]

NOW = datetime(2026, 3, 1, tzinfo=UTC)


def every(forged: bool) -> Iterator[object]:
    """Yield a parser, an example for it, and the example's clean log or one of its forged logs."""
    for name, example in EXAMPLES.items():
        for parser in example.parsers:
            for number, log in enumerate(example.forged if forged else [example.clean]):
                yield pytest.param(parser, example, log, id=f"{name}-{parser[10:]}-{number}")


def whole(log: str) -> str:
    start, end = harness.log_markers()
    return f"+ : '{start}'\n{log}+ SWEBENCH_TEST_EXIT_CODE=0\n+ : '{end}'\n"


def resolved_by(make_instance: MakeInstance, parser: str, example: Example, log: str) -> Instance:
    """Return an instance that the log resolves by swebench's rules. If the parser reports failures
    only, its tests are two that do not appear in the log."""
    from swebench.harness.log_parsers import PARSER_REGISTRY
    from swebench.harness.utils import make_test_spec

    columns = {"log_parser": parser, **example.columns}
    spec = make_test_spec(make_instance(**columns).row)
    status = PARSER_REGISTRY[parser](log, spec)
    tests = [test for test, result in status.items() if result == "PASSED"]
    eval_type = "pass_and_fail" if tests else "fail_only"
    tests = tests or ["one", "another"]
    return make_instance(
        **columns, eval_type=eval_type, FAIL_TO_PASS=tests[:1], PASS_TO_PASS=tests[1:]
    )


def audited(instance: Instance, log: str) -> Audit:
    """Audit a log that resolves the instance by swebench's own rules."""
    report = harness.report(instance.row, "", whole(log))
    assert report.resolved, report
    evaluation = Evaluation(
        instance_id=instance.instance_id,
        outcome="resolved",
        resolved=True,
        environment="docker",
        started_at=NOW,
        duration_s=1.0,
        timeout_s=60.0,
        harness_version="5",
        fail_to_pass_success=report.fail_to_pass_success,
        pass_to_pass_success=report.pass_to_pass_success,
        log=whole(log),
    )
    return audit(instance, evaluation)


def test_every_parser_has_a_format_and_an_example() -> None:
    """Every parser of the installed swebench has a log format and an example."""
    from swebench.harness.log_parsers import PARSER_REGISTRY

    assert log_formats.FORMATS.keys() == PARSER_REGISTRY.keys()
    assert {
        parser for each in EXAMPLES.values() for parser in each.parsers
    } == log_formats.FORMATS.keys()


@pytest.mark.parametrize(("parser", "example", "log"), list(every(forged=False)))
def test_a_clean_log_is_not_suspect(
    parser: str, example: Example, log: str, make_instance: MakeInstance
) -> None:
    """A clean log is not suspect, even with unrelated failures, repeated names or unusual
    totals."""
    assert audited(resolved_by(make_instance, parser, example, log), log) == Audit("resolved", ())


@pytest.mark.parametrize(("parser", "example", "log"), list(every(forged=True)))
def test_a_forged_log_is_suspect(
    parser: str, example: Example, log: str, make_instance: MakeInstance
) -> None:
    """A forged log that contradicts the runner's own output is suspect."""
    instance = resolved_by(make_instance, parser, example, log)
    found = audited(instance, log)
    assert found.verdict == "suspect"
    assert {reason.kind for reason in found.reasons} == {"imitated_output"}


def test_markers_are_expected_as_often_as_the_script_prints_them(
    make_instance: MakeInstance,
) -> None:
    """A script that prints the markers by `echo` has each twice in a traced log, which is not
    suspect."""
    start, end = harness.log_markers()
    example = EXAMPLES["pytest, quietly"]
    script = f"set -x\necho '{start}'\npytest\necho '{end}'\n"
    instance = make_instance(
        eval_script=script,
        FAIL_TO_PASS=["tests/test_a.py::test_a"],
        PASS_TO_PASS=["tests/test_a.py::test_b"],
    )
    traced = f"{start}\n{example.clean}+ echo '{end}'\n{end}\n"
    log = whole(traced).rpartition("+ SWEBENCH")[0]
    evaluation = Evaluation(
        "x",
        "resolved",
        True,
        "docker",
        NOW,
        1.0,
        60.0,
        "5",
        fail_to_pass_success=instance.fail_to_pass,
        pass_to_pass_success=instance.pass_to_pass,
        log=log,
    )
    assert audit(instance, evaluation) == Audit("resolved", ())


def test_an_exit_code_before_the_end_is_no_exit_code_of_the_tests(
    make_instance: MakeInstance,
) -> None:
    """An exit code that is printed before the tests end is suspect: swebench would believe it."""
    example = EXAMPLES["pytest, quietly"]
    instance = resolved_by(make_instance, "parse_log_pytest", example, example.clean)
    found = audited(instance, f">>>>> Test Exit Code: 0\n{example.clean}")
    assert [str(reason) for reason in found.reasons] == [
        "imitated_output: the log has '>>>>> Test Exit Code' before the tests have ended"
    ]
