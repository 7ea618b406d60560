"""An agent in one function: it asks for commands and runs them until an answer has none."""

import re

from agent.arms.options import PythonOptions
from agent.models.protocol import ModelRequest
from agent.session.session import Session
from agent.types import Outcome, Task

PROMPT = "Answer with one shell command in a block of ```, or with DONE. The issue:\n\n"


async def solve(task: Task, session: Session, options: PythonOptions) -> Outcome:
    """Solve a task. Every call and every command is a recorded step."""
    talk = [{"role": "user", "content": PROMPT + task.statement}]
    for _ in range(options.settings["turns"]):
        reply = await session.call(ModelRequest(talk))
        text = reply.message["content"]
        command = re.search(r"```\n(.*)\n```", text, re.DOTALL)
        if command is None:
            return Outcome("submitted", await session.diff(), text)
        done = await session.run(command[1], timeout_s=60)
        talk += [reply.message, {"role": "user", "content": done.output}]
    return Outcome("out_of_steps", await session.diff())
