"""Programs over tools: their steps, their failures, and their results as the model reads them."""

import asyncio
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from agent.errors import Interrupted
from agent.models.protocol import ModelReply, ModelRequest
from agent.ptc.tool import ProgramTool
from agent.tools import Toolbox, ToolResult
from tests.agent.arms.durable.conftest import RoleModel, Said
from tests.agent.arms.loop.conftest import DONE, Attempts, Died

TOOLS = ["files", "shell", "tests.agent.arms.loop.faults:FAULTS", "ptc"]


def ptc(code: str) -> Said:
    return [("run_ptc", {"code": code})]


async def result(attempts: Attempts, code: str, **options: Any) -> str:
    """Return the result of a program as the model reads it."""
    await attempts.run({"loop": [ptc(code), DONE]}, TOOLS, **options)
    [told] = attempts.told()
    return told


SEVERAL = """
import asyncio
names = ["calc.py", "tests/test_calc.py"]
texts = await asyncio.gather(*[read(path=name) for name in names])
found = {name: text.count("def ") for name, text in zip(names, texts)}
done = await run_command("exit 3")
print(done["exit_code"])
found
"""


async def test_the_calls_of_a_program_are_the_steps_of_direct_calls(attempts: Attempts) -> None:
    """Each call is the tool's own step in a scope of the program. The program is no step."""
    told = await result(attempts, SEVERAL)
    assert told.splitlines() == [
        'value: {"calc.py": 2, "tests/test_calc.py": 1}',
        "printed:",
        "3",
        "",
        "3 calls done",
    ]
    assert attempts.session is not None
    uses = [s for s in attempts.session.steps if s.kind == "action" and "tool" in s.request]
    assert sorted(step.scope for step in uses) == [f"work/run_ptc-1/{n}" for n in range(3)]
    direct = {"tool": "run_command", "arguments": {"command": "exit 3"}}
    assert {"action": "tool", **direct} in [step.request for step in uses]
    events = [s.request["event"] for s in attempts.session.steps if s.kind == "event"]
    assert events == ["begin", "deliver", "end"]


WRONG = {
    "x = 1 +": "nothing was run:",
    "await reed(path='calc.py')": "Name `reed` used when not defined",
    "await read(path=3)": "path: Input should be a valid string",
    "await read(file='calc.py')": "Instead: it is `async def read(path: str, ",
    "f = read\nawait f(file='calc.py')": "wrong arguments of read: path: Field required",
    "read(path='calc.py').upper()": "Instead: write `await` before the call",
    "r = await run_command('true')\nr['stdout']": "the keys of CommandEnd are output, exit_code",
    "r = await asyncio.create_task(run_command('true'))\nr.output": "Instead: values of tools are",
    "re.findall('a', 'b')": "Instead: write `import re` first.",
    "import textwrap": "Instead: the modules are asyncio, base64",
    "open('calc.py').read()": "Instead: a program has no own files: `await read(",
    "from pathlib import Path\nlist(Path('.').rglob('*'))": "Instead: a program has no own files",
    "def f():\n  yield 1": "Instead: append to a list in a loop",
    "class E(ValueError): pass": "Instead: a class has no base here",
    "import asyncio\nasyncio.Semaphore(2)": "leave out task groups, locks, semaphores",
    "import sys\nsys.exit(1)": "Instead: raise an error, or let the program end.",
    "import re\nre.match('a', 'b').group()": "note: program.py:2:1: error[unresolved-attribute]",
    "eval('nobody(1)')": "NameError: name 'nobody' is not defined",
    "while True: pass": "the program computed for more than 0.3 s, the limit for one program",
    "'a' * 100_000_000": "the variables of the program need more than 64 MB",
    "print('x' * 100_000)\n7": "value: 7",
    "print('y' * 100_000)": "[prints beyond 64 kB are left out]",
    "x = await read(path='calc.py')": "note: write `x` below the last line to see its value",
    "[await read(path='calc.py') for _ in range(9)]": "made more than 5 calls",
    "'y' * 90_000": "[the value has 90000 characters: return less]",
    "await run_ptc(code='1')": "Name `run_ptc` used when not defined",
    "(len, {1, 2}, 1.5)": "[1, 2], 1.5]",
    "10 ** 5000": "value: <an integer of 16610 bits>",
    "x = []\nfor n in range(5000): x = [x]\nx": '[["..."]]',
    "await read(path='no.py')": "ValueError: there is no file no.py",
    "await invalid(amount=0)": "ValueError: amount is 0",
    "def f(n): return f(n + 1)\nf(0)": "RecursionError: functions called each other more than 200",
    "#" + "x" * 70_000: "is longer than 64 kB",
}
"""Programs with a fault, and words of the result."""

USUAL = {
    "await asyncio.gather(read(path='calc.py', end=1), search('no such text'))": '["',
    "r = await asyncio.gather(read('no'), return_exceptions=True)\nstr(r[0])": "there is no file",
    "t = asyncio.create_task(read('calc.py'))\nlen(await t) > 9": "true",
    "async def f():\n  return 5\nt = asyncio.create_task(f())\nawait t": "5",
    "list(map(str.strip, filter(None, ['', ' a '])))": '["a"]',
    "await asyncio.gather(*map(lambda n: search(pattern=n), ['zzz']))": "[[]]",
    "tools = {'r': read, 's': search}\nlen(await tools['r']('calc.py')) > 9": "true",
    "f = read if hasattr({}, 'x') else search\nawait f(pattern='zzz')": "[]",
    "o = {'path': 'calc.py', 'start': 1}\nlen(await read(**o)) > 9": "true",
    "import re\nre.match(r'(.)', 'ab').group(1)": "a",
    "def f(x: int = None):\n  return x\nf()": "null",
    "d, xs = {'a': 1, 'b': 2}, [1, 2, 3]\ndel d['a'], xs[:2]\n[d, xs]": '[{"b": 2}, [3]]',
    "from __future__ import annotations\n'del x[0] asyncio.create_task'": "del x[0] asyncio",
    "from dataclasses import dataclass\n@dataclass\nclass P:\n  x: int\nP(1)": '{"x": 1}',
    "try:\n  import yaml\nexcept ImportError:\n  yaml = 0\nyaml": "0",
    "m = (await search('def add'))[0]\n(await read(m['path'], m['line'], m['line']))": "def add(",
}
"""Programs as models write them, and the starts of their values."""


async def test_usual_programs_run(attempts: Attempts) -> None:
    """The checks of types refuse none of them, and tools are values that return data."""
    outcome = await attempts.run({"loop": [*map(ptc, USUAL), DONE]}, TOOLS)
    assert outcome.status == "submitted"
    for code, result, value in zip(USUAL, attempts.told(), USUAL.values(), strict=True):
        assert result.startswith(f"value: {value}"), (code, result)


async def test_a_program_of_an_earlier_release_continues(
    attempts: Attempts, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its conversation keeps the prompt, and recorded results have the values that they had."""
    code = "found = await search('def add')\nlen(await read(str(found[0]).split(':')[0])) > 9"
    script: dict[str, Any] = {"loop": [ptc(code), DONE]}
    use = Toolbox.use

    async def use_then(*args: Any, by_program: bool) -> ToolResult:
        return await use(*args)

    with monkeypatch.context() as earlier:
        earlier.setattr(ProgramTool, "prompt", "An earlier prompt.")
        earlier.setattr(Toolbox, "use", use_then)
        with pytest.raises(Died):
            await attempts.run(script, TOOLS, dies_after=4)
    assert [step.kind for step in attempts.recorded].count("action") == 1
    outcome = await attempts.run({"loop": [DONE]}, TOOLS)
    assert outcome.status == "submitted"
    assert attempts.told() == ["value: true\n2 calls done"]
    assert "An earlier prompt." in attempts.model.asked[0].messages[0]["content"]


async def test_the_model_reads_what_is_wrong_with_its_programs(attempts: Attempts) -> None:
    """A program that cannot be run, fails or exceeds a limit is the model's to repair."""
    limits = {"programs": {"calls": 5, "seconds": 0.3}}
    outcome = await attempts.run({"loop": [*map(ptc, WRONG), DONE]}, TOOLS, **limits)
    assert outcome.status == "submitted"
    for result, words in zip(attempts.told(), WRONG.values(), strict=True):
        assert words in result
    assert await attempts.run({}, TOOLS, **limits) == outcome
    assert attempts.model.asked == []


async def test_a_failure_that_is_not_caught_cancels_what_is_in_flight(
    attempts: Attempts, tmp_path: Path
) -> None:
    """A command in flight is ended and undone, and the next one does not begin."""
    code = """
import asyncio
async def fails():
    await read(path="no.py")
async def goes_on():
    await run_command("echo 1 > made.txt; sleep 600")
    await run_command("echo 2 > never.txt")
await asyncio.gather(fails(), goes_on())
"""
    told = await result(attempts, code)
    assert "ValueError: there is no file no.py" in told
    assert told.endswith("0 calls done, 1 failed (read), 1 cancelled (run_command)")
    outcome = await attempts.run({}, TOOLS)
    assert (outcome.status, outcome.patch) == ("submitted", "")


async def test_a_known_end_passes_through_a_program(attempts: Attempts) -> None:
    """A tool that ends the attempt ends it from inside a program, in every run, without a call."""
    code = "try:\n    await broken()\nexcept Exception:\n    pass"
    for _ in range(2):
        outcome = await attempts.run({"loop": [ptc(code), DONE]}, TOOLS)
        assert (outcome.status, outcome.detail) == ("gave_up", "the tool is broken")
    assert attempts.model.asked == []


@pytest.mark.full
async def test_a_stop_passes_through_a_program(attempts: Attempts) -> None:
    """A stop during a program ends it, and makes no further model call. A new run continues."""
    stopped = False

    def may_go_on() -> None:
        if stopped:
            raise Interrupted("asked to stop")

    class Stopping(RoleModel):
        async def complete(self, request: ModelRequest) -> ModelReply:
            nonlocal stopped
            reply = await super().complete(request)
            asyncio.get_running_loop().call_later(0.2, stop)
            return reply

    def stop() -> None:
        nonlocal stopped
        stopped = True

    scripts: dict[str, Any] = {"loop": [ptc("for n in range(99): await slow(seconds=0.1)"), DONE]}
    model = Stopping(scripts)
    with pytest.raises(Interrupted):
        await attempts.run(scripts, TOOLS, may_go_on, model)
    assert len(model.asked) == 1
    stopped = False
    short = {"programs": {"calls": 4}}
    outcome = await attempts.run(scripts, TOOLS, **short)
    assert (outcome.status, len(attempts.model.asked)) == ("submitted", 1)


KILL = "for n in range(3):\n    await run_command('true')\n    x = [i for i in range(300_000)]\n"


@pytest.fixture
def deadly(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Let the worker of every program be killed at its first call. An undo ends that."""
    from agent.ptc import interpreter

    begin = interpreter.Running.begin

    async def killed(self: interpreter.Running, code: str) -> Any:
        stop = await begin(self, code)
        os.kill(self._session.worker_pid or 0, signal.SIGKILL)
        return stop

    monkeypatch.setattr(interpreter.Running, "begin", killed)
    return monkeypatch


@pytest.mark.usefixtures("deadly")
async def test_an_interpreter_that_is_killed_is_reported_once(attempts: Attempts) -> None:
    """The model learns that the interpreter died. If it dies again, that is infrastructure."""
    once: dict[str, Any] = {"loop": [ptc(KILL), [("read", {"path": "calc.py"})], DONE]}
    outcome = await attempts.run(once, TOOLS)
    assert outcome.status == "submitted"
    assert "the interpreter died" in attempts.told(1)[0]


async def test_the_result_of_a_program_tells_what_was_changed_and_put_back(
    attempts: Attempts,
) -> None:
    """The model learns of protected files, as it does from a direct call."""
    code = "for name in ['one.txt', 'tests/test_calc.py']:\n    await write(path=name, content='')"
    told = await result(attempts, code)
    assert "tests/test_calc.py" in told
    assert "value: null" in told
