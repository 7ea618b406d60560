"""Programs and cells that make odd values: what the model reads, and no error of the harness."""

from typing import Any

import pytest

from tests.agent.arms.loop.conftest import DONE, Attempts

PROGRAMS = [
    'print("\\ud800"); chr(0xd800)',
    'print("\\0"); "\\0"',
    'await read(path="\\ud800")',
    "await read(path=5)",
    'await read(path=["calc.py"])',
    'await read(path="x" * 1_000_000)',
    'await run_command("\\0")',
    'await run_command(": " + "x" * 1_000_000)',
    "x = []\nfor _ in range(5000):\n    x = [x]\nx",
    "x = []\nfor _ in range(5000):\n    x = [x]\nawait read(path=x)",
    '{"\\ud800": "\\udc00"}',
    "float('nan'), float('inf'), 10 ** 5000",
    'raise ValueError("\\ud800\\0")',
    "\0",
    "print(1) \ud800",
    "(" * 5000,
    "-" * 100_000 + "1",
    "x" * 1_000_000,
]


@pytest.mark.parametrize("tool", ["run_ptc", pytest.param("cell_run", marks=pytest.mark.full)])
async def test_odd_programs_have_results(attempts: Attempts, tool: str) -> None:
    """The model reads what became of each, and a replay reads the same."""
    script: dict[str, Any] = {"loop": [*([(tool, {"code": code})] for code in PROGRAMS), DONE]}
    capabilities = ["files", "shell", "ptc", "cells"]
    outcome = await attempts.run(script, capabilities)
    assert outcome.status == "submitted"
    assert len(attempts.told()) == len(PROGRAMS)
    assert all(attempts.told())
    assert await attempts.run(script, capabilities) == outcome
    assert attempts.model.asked == []


ODD_USES: list[tuple[str, dict[str, Any]]] = [
    ("read", {"path": "x" * 1_000_000}),
    ("read", {"path": "calc.py", "start": 10**40, "end": 10**50}),
    ("search", {"pattern": "x" * 1_000_000}),
    ("search", {"pattern": "(" * 10_000}),
    ("find_definition", {"symbol": "x" * 1_000_000}),
    ("find_definition", {"symbol": "." * 1_000}),
    ("write", {"path": "x" * 1_000_000, "content": ""}),
    ("write", {"path": "big.txt", "content": "x" * 5_000_000}),
    ("edit", {"path": "calc.py", "old": "x" * 200_000, "new": ""}),
    ("apply_patch", {"patch": "x" * 5_000_000}),
    ("apply_patch", {"patch": f"--- a/{'x' * 200_000}\n+++ b/x\n@@ -1 +1 @@\n-a\n+b"}),
    ("run_tests", {"paths": ["tests/test_calc.py::" + "x" * 1_000_000]}),
    ("run_tests", {"paths": ["x"] * 50_000}),
    ("spawn", {"agent": "\x1b" * 1_000_000, "task": "a"}),
    ("merge", {"ref": "../" * 100_000}),
]


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        pytest.param(*use, marks=pytest.mark.full if number % 5 else [])
        for number, use in enumerate(ODD_USES)
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_an_odd_argument_has_a_result(
    attempts: Attempts, tool: str, arguments: dict[str, Any]
) -> None:
    """Huge values are refused or worked with, within the time that a tool has."""
    capabilities = ["files", "symbols", "shell", "tests", "subagents"]
    outcome = await attempts.run({"loop": [[(tool, arguments)], DONE]}, capabilities)
    assert outcome.status == "submitted"
    assert attempts.told()
