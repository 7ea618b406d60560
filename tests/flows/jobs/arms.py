"""An arm of tests: it runs the one command that its model answers."""

from agent.arms.options import PythonOptions
from agent.models.protocol import ModelRequest
from agent.session.session import Session
from agent.types import Outcome, Task


async def solve(task: Task, session: Session, options: PythonOptions) -> Outcome:
    """Ask once, run the answer as a command, and submit what it changed."""
    reply = await session.call(ModelRequest([{"role": "user", "content": task.statement}]))
    done = await session.run(reply.message["content"], timeout_s=60)
    return Outcome("submitted", await session.diff(), done.output)
