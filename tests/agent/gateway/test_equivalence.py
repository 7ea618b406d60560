"""Which requests of a restarted program are equal to their records, and which never are."""

import json
import re
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

import pytest

from agent.gateway.equivalence import Equivalent, compare_form
from agent.gateway.masks import mask

NOW = datetime(2026, 3, 14, 15, 19, tzinfo=UTC)

OUTPUTS = {
    "pytest": """\
....F..                                                                  [100%]
=================================== FAILURES ===================================
E       assert total(3) == 0.25
E        +  where 0.31 = <function total at «0x7f3a5c0b1d30»>(3)
tests/test_rates.py:12: AssertionError
============================= slowest 2 durations ==============================
«0.31s call     tests/test_rates.py::test_total
0.02s setup    tests/test_rates.py::test_zero»

«(3 durations < 0.005s hidden.  Use -vv to show these durations.)»
=========================== short test summary info ============================
FAILED tests/test_rates.py::test_total - assert 0.31 == 0.25
1 failed, 6 passed, 2 warnings in «0.42s»""",
    "long pytest": "49 passed, 3 skipped in «93.20s (0:01:33)»",
    "coloured pytest": "\x1b[32m\x1b[1m4 passed\x1b[0m\x1b[32m in «0.06s»\x1b[0m",
    "unittest": "Ran 12 tests in «0.004s»\n\nFAILED (failures=1, errors=2)",
    "go": """\
=== RUN   TestTimeout30s
--- FAIL: TestTimeout30s («0.10s»)
    wait_test.go:14: waited 30s, want 20s
ok  \texample.com/wait\t«0.012s»""",
    "cargo": "   Finished `test` profile [unoptimized] target(s) in «0.53s»\n"
    "test result: ok. 3 passed; 0 failed; 1 ignored; finished in «0.01s»",
    "jest": "Tests:       1 failed, 3 passed, 4 total\nTime:        «1.213 s»",
    "mocha": "  3 passing («12ms»)\n  1 failing",
    "tox": "  py311: OK («1.23 seconds»)\n"
    "  lint: FAIL code 1 («0.40=setup[0.10]+cmd[0.30] seconds»)",
    "maven": "[INFO] Tests run: 5, Failures: 1, Skipped: 0, Time elapsed: «0.041 s» in a.B",
    "time": "done\n\nreal\t«0m0.213s»\nuser\t«0m0.150s»\nsys\t«0m0.020s»",
    "source": """\
12:    retry(after=30, every=0.5)  # waits 30 seconds, at most 1.5 s each
13:    sleep(0.5)  # released on 2024-05-06 in version 2.10.3, see 10.0.0.2:8080
14:    pid = 0x7f3a; job(pid=7, duration=30)  # session_id = 12
duration: 30
timeout: 30s
-rw-r--r-- 1 root root 1204 Jan  3 10:12 setup.cfg
/tmp/patch2.diff /tmp/repro_v1.py at line 110 process 7
commit 4bf83c50a1d2e3f4a5b6c7d8e9f0a1b2c3d4e5f6
Date:   Mon May 6 10:11:12 2024 +0200""",
    "run": """\
-rw-r--r-- 1 root root 1204 «Mar 14 15:08» setup.cfg
«2026-03-14 15:08:59,120» INFO read 3 rows
«2026-03-14T15:08:59Z» started, due 2026-04-01
[«15:08:58»] INFO read 3 rows, opens 08:30:00
«15:08:58.120» DEBUG slot 15:08:57 is free
   Start at  «15:08:51»
Process Group PGID: «110»
Background PIDs: «4711»
bash: line 1: «2312» Killed                  python big.py 2
Output is in /tmp/«tmpab3d_9xz»/out.log and /tmp/«tmp.Xy12Zk90Qa», port 127.0.0.1:«43121»
tmp folder /tmp/pytest-of-root/pytest-«12»/test_a0
session «0b9c1f52-7a0e-4f43-9c55-2f6d1a7be001»""",
    "a tool of an agent": """\
Chunk ID: «a1b2c3»
Wall time: «0.0512» seconds
Process exited with code 0
Original token count: «112»
Output:
3 rows""",
    "a result as JSON": '{"output": "2 passed in «0.06s»", "metadata": {"exit_code": 0, '
    '"duration_seconds": «0.2»}}',
    "results as JSON": '[{"query": "make", "result": "«0.31s call     tests/a.py::b\\n»2 failed"}]',
}
"""Outputs of tools. What may differ from run to run is in guillemets."""

CHANGES = {"0x7f3a5c0b1d30": "0x7fee10203040", "a1b2c3": "d4e5f6", "Mar 14 15:08": "Mar 14 15:31"}
VALUE = re.compile("«([^»]*)»")


def talk(output: str, command: str = "make check", dialect: str = "chat") -> dict[str, Any]:
    """Return a request of a conversation with one result of a tool."""
    arguments = json.dumps({"command": command})
    if dialect == "messages":
        use = {"type": "tool_use", "id": "a", "name": "Bash", "input": {"command": command}}
        result = {"type": "tool_result", "tool_use_id": "a", "content": output}
        return {
            "system": "Work.",
            "messages": [
                {"role": "user", "content": "Repair it."},
                {"role": "assistant", "content": [use]},
                {"role": "user", "content": [result]},
            ],
        }
    if dialect == "responses":
        call = {"type": "function_call", "call_id": "a", "name": "shell", "arguments": arguments}
        answer = {"type": "function_call_output", "call_id": "a", "output": output}
        return {"input": [{"role": "user", "content": "Repair it."}, call, answer]}
    if dialect == "gemini":
        call = {"functionCall": {"name": "shell", "args": {"command": command}}}
        answer = {"functionResponse": {"name": "shell", "response": {"output": output}}}
        return {
            "contents": [
                {"role": "user", "parts": [{"text": "Repair it."}]},
                {"role": "model", "parts": [call]},
                {"role": "user", "parts": [answer]},
            ]
        }
    function = {"name": "bash", "arguments": arguments}
    return {
        "messages": [
            {"role": "user", "content": "Repair it."},
            {"role": "assistant", "tool_calls": [{"id": "a", "function": function}]},
            {"role": "tool", "tool_call_id": "a", "content": output},
        ]
    }


def form(body: dict[str, Any], moment: datetime = NOW) -> Equivalent:
    return compare_form({"dialect": "any", "role": "agent"}, body, moment)


def change(value: str) -> str:
    """Return another value of the same kind."""
    if value in CHANGES:
        return CHANGES[value]
    if "durations" in value:
        return value.replace("3", "7")
    if "\\n" in value:
        return "0.11s setup    tests/c.py::d\\n0.01s call     tests/a.py::b\\n"
    if "call  " in value:
        return "0.11s call     tests/test_o.py::test_slow\n0.40s call     tests/test_x.py::test_y"
    minutes = value.replace("15:08", "15:11") if "15:08" in value else value
    return re.sub(r"\d(?=\D*$)", lambda last: str((int(last[0]) + 1) % 10), minutes)


def mutants(text: str) -> Iterator[str]:
    """Yield a text with another number, name or verdict, one for each outside the guillemets."""
    inside = [match.span() for match in VALUE.finditer(text)]
    for word in re.finditer(r"\w+", text):
        if any(start <= word.start() < end for start, end in inside):
            continue
        if text[: word.start()].endswith("\x1b["):
            continue  # a colour
        other = str(int(word[0]) + 1) if word[0].isdecimal() else f"{word[0]}x"
        yield VALUE.sub(r"\1", text[: word.start()] + other + text[word.end() :])


@pytest.mark.parametrize("name", OUTPUTS)
@pytest.mark.parametrize("dialect", ["chat", "messages", "responses", "gemini"])
def test_what_differs_from_run_to_run_is_masked_and_nothing_else(name: str, dialect: str) -> None:
    """Each marked value may change, and no other number, name or verdict."""
    output = OUTPUTS[name]
    before = form(talk(VALUE.sub(r"\1", output), dialect=dialect))
    later = form(talk(VALUE.sub(lambda value: change(value[1]), output), dialect=dialect))
    assert before.find_difference(later) is None
    assert bool(before.list_loosened(later)) is bool(VALUE.search(output))
    for mutant in mutants(output):
        assert form(talk(mutant, dialect=dialect)).digest != before.digest, mutant


def ask_for_two(
    dialect: str, ids: str, order: Sequence[int], results: str = "xy"
) -> dict[str, Any]:
    """Return a request with two calls, and their results in an order."""
    told = [(ids[at], results[at]) for at in order]
    if dialect == "messages":
        calls = [{"type": "tool_use", "id": own, "name": "Bash", "input": {}} for own in ids]
        answers = [{"type": "tool_result", "tool_use_id": i, "content": text} for i, text in told]
        talk = [("assistant", calls), ("user", answers)]
        return {"messages": [{"role": role, "content": content} for role, content in talk]}
    if dialect == "responses":
        calls = [{"type": "function_call", "call_id": own, "arguments": "{}"} for own in ids]
        kind = "function_call_output"
        return {"input": calls + [{"type": kind, "call_id": i, "output": text} for i, text in told]}
    if dialect == "gemini":
        calls = [{"functionCall": {"id": own, "name": "shell", "args": {}}} for own in ids]
        names = [{"id": own, "name": "shell", "response": {"output": text}} for own, text in told]
        answers = [{"functionResponse": each} for each in names]
        talk = [("model", calls), ("user", answers)]
        return {"contents": [{"role": role, "parts": parts} for role, parts in talk]}
    calls = [{"id": own, "function": {"name": "bash", "arguments": "{}"}} for own in ids]
    answers = [{"role": "tool", "tool_call_id": own, "content": text} for own, text in told]
    return {"messages": [{"role": "assistant", "tool_calls": calls}, *answers]}


@pytest.mark.parametrize("dialect", ["chat", "messages", "responses", "gemini"])
def test_results_are_compared_by_the_calls_that_they_answer(dialect: str) -> None:
    """They come in any order, and a program may invent the ids of the calls."""
    before = form(ask_for_two(dialect, "ab", (0, 1)))
    later = form(ask_for_two(dialect, "ab", (1, 0)))
    assert before.digest == later.digest
    assert before.list_loosened(later) == ["order of results"]
    invented = form(ask_for_two(dialect, "cd", (1, 0)))
    assert before.digest == invented.digest
    assert before.list_loosened(invented) == ["call id", "order of results"]
    for ids in ("ab", "ba", "cd"):
        assert form(ask_for_two(dialect, ids, (0, 1), "yx")).digest != before.digest


@pytest.mark.parametrize(
    ("command", "is_any_order"),
    [
        ("grep -rn total .", True),
        ("cd src && rg total | head -40", True),
        ("find . -name '*.py' 2>/dev/null", True),
        ("python -m pytest -n 4 -q", True),
        ("cargo test 2>&1 | tail -20", True),
        ("cat a.py", False),
        ("grep -n total a.py", False),
        ("python -m pytest -q", False),
        ("cat a.py; grep -rn total .", False),
        ("python -c 'print(1' | grep -r", False),
        ("git log --oneline", False),
    ],
)
def test_lines_come_in_any_order_only_where_that_is_known(command: str, is_any_order: bool) -> None:
    lines = ["a.py:1: total", "b.py:2: total", "c.py:3: sum"]
    before = form(talk("\n".join(lines), command))
    later = form(talk("\n".join(reversed(lines)), command))
    assert (before.digest == later.digest) is is_any_order
    if is_any_order:
        assert before.list_loosened(later) == ["order of lines"]
        assert form(talk("\n".join(lines[1:]), command)).digest != before.digest


def test_the_words_of_the_model_are_compared_exactly() -> None:
    before, later = talk("ok"), talk("ok")
    before["messages"][1]["content"] = "It took: 2 passed in 0.06s"
    later["messages"][1]["content"] = "It took: 2 passed in 0.07s"
    assert form(before).digest != form(later).digest


def test_a_run_can_go_on_another_day() -> None:
    """The date of the run is masked, and not the dates that are content."""
    first = {"messages": [{"role": "user", "content": "Today is 2026-03-14. Due: 2026-03-20."}]}
    next_day = {"messages": [{"role": "user", "content": "Today is 2026-03-20. Due: 2026-03-20."}]}
    later = datetime(2026, 3, 20, tzinfo=UTC)
    assert form(first).digest != form(next_day, later).digest, "the due date is the date of the run"
    first["messages"][0]["content"] = "Today is 2026-03-14. Due: 2026-05-01."
    next_day["messages"][0]["content"] = "Today is 2026-03-20. Due: 2026-05-01."
    assert form(first).digest == form(next_day, later).digest


@pytest.mark.parametrize(
    "piece",
    ["a", ".", "1", " ", "\n", "/tmp/a-b.", "/tmp/a/", "1 passed ", "0.1s call  x ", "x: OK (1=a ",
     "2026-03-14 ", "Mon Mar 14 ", "15:08:58 ", "[15:08:58] at ",
     "0b9c1f52-7a0e-", "session id ", "ok \tx\t", "✓ (1 ", "pid "],
)  # fmt: skip
def test_no_output_takes_long(piece: str) -> None:
    """An output of 60 kB has two seconds of a processor, whatever is in it."""
    began = time.process_time()
    mask(piece * (60_000 // len(piece)), NOW)
    assert time.process_time() - began < 2


@pytest.mark.parametrize("levels", [150, 900, 200_000])
def test_a_result_that_is_nested_too_deeply_is_a_text(levels: int) -> None:
    """A file of brackets in a repository ends no attempt."""
    before = form(talk("[" * levels + "]" * levels))
    assert form(talk("[" * levels + "1" + "]" * levels)).digest != before.digest
