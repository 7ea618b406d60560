"""A chat: the agent works until it says something, then waits for the next message of a person."""

from agent.capabilities.base import Agent
from agent.capabilities.working import Spoken, conversation
from agent.conversation.ends import ended
from agent.conversation.exchanges import Exchange
from agent.conversation.person import Dismissed, Person
from agent.session.session import Session
from agent.types import Outcome

_ENDS = {
    "malformed": "I could not answer: my last replies were malformed.",
    "out_of_rounds": "I stop here, because this turn has used up its model calls.",
}


async def chat(agent: Agent, session: Session, scope: Session) -> Outcome:
    """Talk about the task until a person ends the chat. Submit the change that was made by then.

    Without a text of the task, the first message begins the chat. `scope` is for the conversation.

    Raises:
        Waiting: no message came for a while; the next one resumes the attempt.
    """
    task = agent.crew.task.statement
    talk = conversation(agent, {"task": task}, Spoken, scope, Person(scope, is_chat=True))
    said = ""
    is_open = bool(task.strip())
    while True:
        if is_open:
            try:
                exchange = await talk.until_answer()
            except Dismissed as error:  # in answer to a question of the agent
                return Outcome("submitted", await session.diff(), str(error))
            if exchange.end == "context_full":
                return Outcome(
                    ended(exchange.end), await session.diff(), "the context window is full"
                )
            said = _said(exchange)
        messages = await talk.hear(said)
        if any(message.kind == "end" for message in messages):
            return Outcome("submitted", await session.diff(), said)
        is_open = True


def _said(exchange: Exchange[Spoken]) -> str:
    if exchange.answer is not None:
        return exchange.answer.text
    return _ENDS.get(exchange.end, f"I stop here: {exchange.end}.")
