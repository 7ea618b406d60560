"""An agent of two or three model calls, whose patch is the last reply."""

from agent.arms.options import PythonOptions
from agent.models.protocol import ModelRequest
from agent.session.session import Session
from agent.types import Outcome, Task


async def solve(task: Task, session: Session, options: PythonOptions) -> Outcome:
    """Plan, draft and, with the setting `check`, look again."""
    talk = [{"role": "user", "content": f"Plan. {task.statement}"}]
    for asked in ("Draft.", "Check.")[: 1 + bool(options.settings.get("check"))]:
        reply = await session.call(ModelRequest(talk))
        talk += [reply.message, {"role": "user", "content": asked}]
    reply = await session.call(ModelRequest(talk))
    return Outcome("submitted", str(reply.message["content"]))
