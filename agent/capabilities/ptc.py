"""Programs over tools: the model writes Python that calls its tools."""

from typing import Any

from pydantic import Field

from agent.capabilities.base import Agent, Capability, Native
from agent.conversation.conversation import prompt_beside
from agent.conversation.offering import use_tool
from agent.errors import InfrastructureError
from agent.session.session import Session
from agent.tools.results import ToolResult
from agent.tools.tool import Arguments, Refused, Value, parsed

_CRASHES_IN_A_ROW = 2


class RunPtc(Arguments):
    """Run a program over your tools."""

    code: str = Field(min_length=1, description="Python; the last expression is the result")


async def run_ptc(agent: Agent, session: Session, asked: RunPtc) -> ToolResult:
    """Run a program of an agent, and return its result as text.

    Raises:
        InfrastructureError: the interpreter died twice in a row.
        AgentError: a call ended the line of work.
    """
    from agent.ptc import program  # imported on first use, with the interpreter
    from agent.ptc.interpreter import Bounds

    limits = agent.crew.programs
    if len(asked.code.encode()) > limits.code_kb * 1000:
        return ToolResult(f"the program is longer than {limits.code_kb} kB: split it", ok=False)
    bounds = Bounds(
        limits.seconds,
        limits.memory_mb * 1_000_000,
        limits.recursion,
        _suspensions(limits.calls),
        limits.output_kb * 1000,
    )

    async def use(name: str, arguments: dict[str, Any], scope: Session) -> dict[str, Any]:
        return await _used(agent, name, arguments, scope)

    functions = _functions(agent)
    ended = await program.run(asked.code, functions, use, session, bounds, limits.calls)
    _count_crashes(agent, is_crash=ended.status == "crashed")
    return _shown(ended, limits.output_kb * 1000)


def _suspensions(calls: int) -> int:
    """Return a limit on what the interpreter asks of its host, which calls alone never reach."""
    return 4 * calls + 1000


def _count_crashes(agent: Agent, *, is_crash: bool) -> None:
    crashes = agent.memory.get("ptc", 0) + 1 if is_crash else 0
    agent.memory["ptc"] = crashes
    if crashes >= _CRASHES_IN_A_ROW:
        raise InfrastructureError("the interpreter of programs died twice in a row")


def _functions(agent: Agent) -> dict[str, Any]:
    """Return what programs of the agent may call."""
    from agent.ptc.stubs import Function

    offered = [(t.name, t.arguments, t.value) for t in agent.tools.values()]
    offered += [(n.name, n.arguments, n.value) for n in agent.natives.values() if n.value]
    return {
        name: Function(name, arguments.model_json_schema(), value.type)
        for name, arguments, value in offered
    }


async def _used(
    agent: Agent, name: str, arguments: dict[str, Any], scope: Session
) -> dict[str, Any]:
    """Carry out a call of a program. Return its value, or the exception that it raises."""
    native = agent.natives.get(name)
    if native is None:
        result = await use_tool(scope, agent.toolbox, name, arguments)
        value = agent.tools[name].value
    else:
        try:
            asked = parsed(name, native.arguments, arguments)
        except Refused as refusal:
            return {"exc_type": "ValueError", "message": str(refusal)}
        result = await native.run(agent, scope, asked)
        assert native.value is not None, "only those with a value are declared"
        value = native.value
    return _settled(result, value)


def _settled(result: ToolResult, value: Value) -> dict[str, Any]:
    if result.tests is not None and result.timed_out:
        return {"exc_type": "TimeoutError", "message": result.output[-1000:]}
    if result.ok or result.exit_code is not None:
        return {"return_value": value.of(result)}
    kind = "RuntimeError" if result.undone else "ValueError"
    return {"exc_type": kind, "message": result.output}


def _shown(ended: Any, most: int) -> ToolResult:
    from agent.ptc.program import summary
    from agent.ptc.values import as_text

    if ended.status == "rejected":
        return ToolResult(f"nothing was run:\n{ended.error}", ok=False)
    parts = [ended.error or f"value: {as_text(ended.value, most)}"]
    parts += [f"printed:\n{ended.printed}"] if ended.printed else []
    return ToolResult("\n".join([*parts, summary(ended.calls)]), ok=ended.status == "finished")


def _prompt(agent: Agent) -> str:
    from agent.ptc.stubs import stubs

    return f"{prompt_beside(__file__)}\n```python\n{stubs(_functions(agent).values())}```"


PTC = Capability(
    "ptc",
    native=(Native("run_ptc", RunPtc, run_ptc, changes_files=True, value=None),),
    prompt=_prompt,
)
