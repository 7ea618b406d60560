"""The tool `run_ptc`: a program over the other tools of a conversation."""

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from pydantic import Field, TypeAdapter

from agent.conversation.exchanges import Helper, ToolUse, get_changed_files
from agent.conversation.offering import use_tool
from agent.errors import InfrastructureError
from agent.limits import Programs
from agent.ptc.stubs import Function, stubs
from agent.ptc.values import as_json, as_text
from agent.session.session import Session
from agent.session.steps import ActionResult, Step
from agent.tools import Toolbox, ToolResult
from agent.tools.tool import Arguments, Refused, Value, parse_arguments

NAME = "run_ptc"

_RESULT = TypeAdapter(ToolResult)


class RunPtc(Arguments):
    """Run a program over your tools."""

    code: str = Field(min_length=1, description="Python; the last expression is the result")


class ProgramTool:
    """Runs the programs of one role over its tools."""

    def __init__(self, toolbox: Toolbox, helpers: Sequence[Helper], limits: Programs) -> None:
        self._toolbox = toolbox
        self._tools = {tool.name: tool for tool in toolbox.tools}
        self._helpers = {helper.name: helper for helper in helpers if helper.value is not None}
        self._limits = limits
        self._has_crashed = False
        """True if the interpreter died in the last program."""

    @property
    def helper(self) -> Helper:
        """The tool as a helper of a conversation. Programs cannot run programs."""
        return Helper(NAME, RunPtc, self.run, changes_files=True, value=None)

    @property
    def prompt(self) -> str:
        """A paragraph for the system message, with the functions that programs may call."""
        instructions = Path(__file__).with_suffix(".md").read_text("utf-8")
        return f"{instructions}\n```python\n{stubs(self._functions.values())}```"

    @cached_property
    def _functions(self) -> Mapping[str, Function]:
        offered = [(tool.name, tool.arguments, tool.value) for tool in self._tools.values()]
        offered += [(h.name, h.arguments, h.value) for h in self._helpers.values() if h.value]
        return {
            name: Function(name, arguments.model_json_schema(), value.type, value.classes)
            for name, arguments, value in offered
        }

    async def run(self, asked: RunPtc, session: Session) -> ToolResult:
        """Run a program, and return its result as text, with the files that it changed.

        Raises:
            InfrastructureError: the interpreter died twice in a row.
            AgentError: a call ended the line of work.
        """
        from agent.ptc import program  # imported on first use, with the interpreter

        def refuse_second_crash() -> None:
            # Recorded, a second crash in a row would end every retry.
            if self._has_crashed:
                raise InfrastructureError("the interpreter of programs died twice in a row")
            self._has_crashed = True

        limits = self._limits
        if len(asked.code.encode()) > limits.code_kb * 1000:
            return ToolResult(f"the program is longer than {limits.code_kb} kB: split it", ok=False)
        end = await program.run(
            asked.code, self._functions, self._use, session, limits, refuse_second_crash
        )
        self._has_crashed = end.status == "crashed"
        if end.status == "rejected":
            return ToolResult(f"nothing was run:\n{end.error}", ok=False)
        parts = [end.error or f"value: {as_text(end.value, limits.output_kb * 1000)}"]
        parts += [f"note: {end.notes}"] if end.notes else []
        parts += [f"printed:\n{end.printed}"] if end.printed else []
        uses = _uses(session.steps, session.name, r"(\d+)")
        put_back = dict.fromkeys(path for use in uses for path in use.result.put_back)
        return ToolResult(
            "\n".join([*parts, program.summary(end.calls)]),
            ok=end.status == "finished",
            changed=list(get_changed_files(uses)),
            put_back=list(put_back),
        )

    async def _use(self, name: str, arguments: dict[str, Any], scope: Session) -> dict[str, Any]:
        """Execute a call of a program. Return its value, or the exception that it raises."""
        helper = self._helpers.get(name)
        if helper is None:
            result = await use_tool(scope, self._toolbox, name, arguments, by_program=True)
            return _settle(result, self._tools[name].value)
        try:
            use = parse_arguments(name, helper.arguments, arguments)
        except Refused as refusal:
            return {"exc_type": "ValueError", "message": str(refusal)}
        assert helper.value is not None, "only those with a value are declared"
        return _settle(await helper.help(use, scope), helper.value)


def program_uses(steps: Iterable[Step], conversation: str) -> list[ToolUse]:
    """Return the uses of tools in the programs of a conversation, in the order of the calls.

    `conversation` is its scope. The uses of a program that was cut off are among them.
    """
    return _uses(steps, conversation, rf"{NAME}-(\d+)/(\d+)")


def _uses(steps: Iterable[Step], scope: str, places: str) -> list[ToolUse]:
    """Return the uses of tools in places inside a scope, in the order of their numbers."""
    inside = re.compile(re.escape(f"{scope}/" if scope else "") + places)
    uses: dict[tuple[int, ...], ToolUse] = {}
    for step in steps:
        place = inside.fullmatch(step.scope)
        if place and "tool" in step.request and isinstance(step.result, ActionResult):
            result = _RESULT.validate_python(step.result.content)
            use = ToolUse(step.request["tool"], step.request["arguments"], result)
            uses[tuple(map(int, place.groups()))] = use
    return [uses[numbers] for numbers in sorted(uses)]


def _settle(result: ToolResult, value: Value) -> dict[str, Any]:
    if result.tests is not None and result.timed_out:
        return {"exc_type": "TimeoutError", "message": result.output[-1000:]}
    if result.ok or result.exit_code is not None:
        return {"return_value": as_json(value.of(result))}
    kind = "RuntimeError" if result.undone else "ValueError"
    return {"exc_type": kind, "message": result.output}
