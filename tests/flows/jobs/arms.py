"""An arm of tests: it runs the one command that its model answers."""

from agent.arms.options import PythonOptions
from agent.models.protocol import ModelRequest
from agent.session.session import Session
from agent.types import Outcome, Task

COMMAND_S = 600.0
"""Time limit of the command, which may wait until a busy machine has restarted a server."""


async def solve(task: Task, session: Session, options: PythonOptions) -> Outcome:
    """Ask once, run the answer as a command, and submit what it changed."""
    reply = await session.call(ModelRequest([{"role": "user", "content": task.statement}]))
    done = await session.run(reply.message["content"], timeout_s=COMMAND_S)
    return Outcome("submitted", await session.diff(), done.output)
