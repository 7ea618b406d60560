"""Programs over tools: what a call of a program costs, how fast one replays, and many at once."""

import asyncio
import statistics
import time
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

from agent.limits import Programs
from agent.ptc import program
from agent.ptc.stubs import Function
from agent.session.session import Session
from agent.workspaces import Workspace
from tests.agent.attempts import begin, open_session
from tests.bench import loops
from tests.bench.durability import Memory
from tests.bench.timing import Bound, Ratio

CALLS, CALL_LIMIT_MS = 200, 1.0
RECORDED_CALLS, REPLAY_LIMIT_S = 1000, 1.0
PROGRAMS, PROGRAMS_LIMIT_S = 64, 5.0

LIMITS = Programs(calls=2_000, seconds=60, recursion=200)
NUMBER = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
FUNCTIONS = {name: Function(name, NUMBER, "int") for name in ("probe", "nest")}

ONE_BY_ONE = "for n in range({calls}):\n    await probe(n=n)\n"
NESTED = "[await nest(n=1), await probe(n=1)]"


def run(folder: Path, *, pairs: int) -> list[Bound | Ratio]:
    """Measure single calls in pairs with direct ones, a replay, programs at once, and attempts."""
    more_ms = [asyncio.run(_calls(folder / f"calls-{pair}")) for pair in range(pairs)]
    replays = [asyncio.run(_replay(folder / f"replay-{pair}")) for pair in range(pairs)]
    at_once = [asyncio.run(_at_once(folder / f"at-once-{pair}")) for pair in range(pairs)]
    return [
        Bound(
            "a call of a program, beyond the same call made directly",
            statistics.median(more_ms),
            CALL_LIMIT_MS,
            "ms",
            f"{CALLS} calls, one after another",
        ),
        Bound(
            f"the replay of a program of {RECORDED_CALLS:,} calls",
            statistics.median(replays),
            REPLAY_LIMIT_S,
            "s",
            f"best {min(replays):.2f} s",
        ),
        Bound(
            f"{PROGRAMS} programs at once, each with a nested one",
            statistics.median(at_once),
            PROGRAMS_LIMIT_S,
            "s",
            f"best {min(at_once):.2f} s",
        ),
        loops.run(folder / "loops", pairs=pairs),
    ]


async def _calls(folder: Path) -> float:
    """Return the milliseconds that a call of a program takes longer than a direct one."""
    async with _session(folder) as session:
        start = time.perf_counter()
        for number in range(CALLS):
            await _probe(session.scope(f"direct/{number}"), number)
        direct = time.perf_counter() - start
        start = time.perf_counter()
        await _program(session.scope("program"), ONE_BY_ONE.format(calls=CALLS))
        return (time.perf_counter() - start - direct) / CALLS * 1000


async def _replay(folder: Path) -> float:
    """Return the seconds that the replay of a finished program takes."""
    code = ONE_BY_ONE.format(calls=RECORDED_CALLS)
    async with _session(folder) as session:
        await _program(session.scope("program"), code)
    async with _session(folder) as session:
        start = time.perf_counter()
        await _program(session.scope("program"), code)
        return time.perf_counter() - start


async def _at_once(folder: Path) -> float:
    """Return the seconds that many programs take at the same time."""
    async with _session(folder) as session:
        start = time.perf_counter()
        scopes = [session.scope(f"program-{number}") for number in range(PROGRAMS)]
        await asyncio.gather(*(_program(scope, NESTED) for scope in scopes))
        return time.perf_counter() - start


async def _program(scope: Session, code: str) -> None:
    ended = await program.run(code, FUNCTIONS, _use, scope, LIMITS)
    assert ended.status == "finished", ended


async def _use(name: str, arguments: dict[str, Any], scope: Session) -> dict[str, Any]:
    if name == "nest":
        await _program(scope.scope("inner"), "await probe(n=2)")
        return {"return_value": 1}
    return {"return_value": await _probe(scope, arguments["n"])}


async def _probe(scope: Session, number: int) -> int:
    async def work(workspace: Workspace) -> int:
        return number

    return await scope.act("tool", {"tool": "probe", "arguments": {"n": number}}, work, int)


def _session(folder: Path) -> AbstractAsyncContextManager[Session]:
    return open_session(begin(folder), folder, None, workspaces=Memory())
