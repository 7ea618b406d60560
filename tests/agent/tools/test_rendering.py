"""Prompts get a short form of a long output: errors first, then both ends and a note on the gap."""

from agent.shortening import head_and_tail
from agent.tools import TestRun, ToolResult, render


def test_output_that_fits_is_shown_unchanged() -> None:
    """A short output is shown completely, after the exit code if there is one."""
    assert render(ToolResult("hello\n", exit_code=0)) == "exit code 0\nhello"
    assert render(ToolResult("lines")) == "lines"
    assert render(ToolResult("", exit_code=1, ok=False)) == "exit code 1\n(no output)"


def test_head_and_tail_are_whole_lines() -> None:
    """Only whole lines are kept, and a note between them says how much is left out."""
    text = "".join(f"line {n}\n" for n in range(1000))
    shown = head_and_tail(text, 100)
    head, gap, tail = shown.partition("[... ")
    assert head == "".join(f"line {n}\n" for n in range(7))
    assert gap
    assert tail.startswith("8796 characters in 988 lines left out ...]\nline 995\n")
    assert tail.endswith("line 999\n")
    kept = len(shown) - len("[... 8796 characters in 988 lines left out ...]\n")
    assert kept + 8796 == len(text)


def test_errors_of_a_failed_command_come_first() -> None:
    """Lines with errors from anywhere in a failed command's output come first."""
    noise = "compiling a file\n" * 3000
    output = f"{noise}src/io.c:7: error: no such type\n{noise}ValueError: bad\n{noise}"
    shown = render(ToolResult(output, ok=False, exit_code=2), 2000)
    assert shown.startswith(
        "exit code 2\nlines that tell of errors:\n"
        "src/io.c:7: error: no such type\nValueError: bad\n"
    )
    assert len(shown) < 2100
    assert "error:" not in render(ToolResult(output, exit_code=0), 2000)


REPORT = """
_____________________ test_{n} ______________________

    def test_{n}():
>       assert load({n}) == 7

tests/test_io.py:{n}:
_ _ _ _ _ _ _ _ _ _ _
src/io.py:12: in load
    return check(x)
E       assert {n} == 7
E        +  where {n} = load()

src/io.py:40: AssertionError
----------------------------- Captured stdout call -----------------------------
{noise}
"""


def test_failed_tests_come_first() -> None:
    """Names of failed tests come first, then assertions and last frames, counts and the output."""
    reports = "".join(REPORT.format(n=n, noise="print\n" * 2000) for n in (1, 2))
    output = f"FF.\n=== FAILURES ===\n{reports}=== short test summary info ===\nFAILED x\n"
    run = TestRun("pytest", 1, ["a::b"], ["x::test_1", "x::test_2"], ["y"], output)
    shown = render(ToolResult(output, ok=False, exit_code=1, tests=run), 3000)
    parts = [
        "exit code 1\nFAILED x::test_1\nFAILED x::test_2\nERROR y\n",
        "\ntest_1\nE       assert 1 == 7\nE        +  where 1 = load()\n",
        "src/io.py:12: in load\nsrc/io.py:40: AssertionError\n",
        "\ntest_2\nE       assert 2 == 7\n",
        "\n2 failed, 1 errors, 1 passed\n",
        "left out",
        "=== short test summary info ===",
    ]
    places = [shown.index(part) for part in parts]
    assert places == sorted(places)
    assert len(shown) < 3200


def test_many_failures_are_counted() -> None:
    """Only the first of a thousand failed tests are named. The rest are counted."""
    names = [f"tests/test_io.py::test_{n}" for n in range(1000)]
    output = "noise\n" * 5000
    run = TestRun("pytest", 1, [], names, [], output)
    shown = render(ToolResult(output, ok=False, exit_code=1, tests=run))
    assert "FAILED tests/test_io.py::test_29\n[... 970 more]\n1000 failed" in shown


def test_reverted_changes_are_never_left_out() -> None:
    """The note about reverted changes is complete, and the output is shortened for it."""
    result = ToolResult("noise\n" * 5000, exit_code=0, put_back=["conftest.py", "tests/test_a.py"])
    shown = render(result, 2000)
    assert "changes to these were undone: conftest.py, tests/test_a.py. Solve" in shown
    assert len(shown) < 2100
