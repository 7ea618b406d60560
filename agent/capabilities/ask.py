"""A question to the person who watches the attempt."""

from pydantic import Field

from agent.capabilities.base import Agent, Capability, Native
from agent.conversation.person import Person, dismissed, told
from agent.session.session import Session
from agent.tools.results import ToolResult
from agent.tools.tool import Arguments


class Ask(Arguments):
    """Ask a person a question, and get the answer."""

    question: str = Field(
        min_length=1, description="one question, with the choices if there are any"
    )


async def ask(agent: Agent, session: Session, asked: Ask) -> ToolResult:
    """Return the answer of a person, for which the attempt waits.

    Raises:
        Dismissed: the person ended the attempt instead.
        Waiting: there is no answer yet; the next message resumes the attempt.
    """
    messages = await Person(session).answer(0, "answer", asked.question)
    if messages[-1].kind == "end":
        raise dismissed(messages[-1])
    return ToolResult(told(messages))


ASK = Capability(
    "ask",
    native=(Native("ask", Ask, ask, value=None),),
    prompt="`ask` asks the person who gave you the task. It may take hours until they answer, so "
    "ask only what the repository cannot tell you and what would change your work.",
)
