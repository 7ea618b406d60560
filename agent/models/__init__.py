"""The models of an arm: a model that LiteLLM reaches, or one of three that need no key.

spec.py           model specifications in an experiment; `parse` reads them
protocol.py       messages in, one assistant message and its usage out
litellm_api.py    any LiteLLM model string
pacing.py         rate limits of providers, shared by all workers of a journal
retry.py          retry policy for its failures
native.py         requests of programs in their own dialect, and answers while they are generated
gemini.py         conversations of Google's generateContent as chat completions, and answers back
simulated/        a seeded stand-in that has the reference patch
patches.py        unified diffs as data, for both
recorded.py       replays the model side of an earlier run, or a fixed list of replies
trajectory.py     reads the trajectory of a mini-swe-agent run
usage.py, chat.py token counts and messages, for all of them
"""

from agent.models.litellm_api import LiteLLMModel
from agent.models.pacing import Sending
from agent.models.protocol import (
    Message,
    Model,
    ModelInfo,
    ModelReply,
    ModelRequest,
    Usage,
)
from agent.models.recorded import ScriptedModel, for_task
from agent.models.simulated import SimulatedModel
from agent.models.spec import (
    LiteLLMSpec,
    ModelSpec,
    RecordedSpec,
    ScriptedSpec,
    SimulatedSpec,
    parse,
)
from agent.types import Task


def build(spec: ModelSpec, task: Task, seed: int, sending: Sending | None = None) -> Model:
    """Return the model of one attempt at one task.

    `seed` is the attempt's own. `sending` controls when a request may be sent to a provider;
    without it, requests are sent at any time.

    Raises:
        InvalidSpec: the recording of the task or the reference patch is missing.
    """
    match spec:
        case LiteLLMSpec():
            return LiteLLMModel(spec, sending)
        case SimulatedSpec():
            return SimulatedModel(spec, task, seed)
        case RecordedSpec():
            return for_task(spec, task)
        case ScriptedSpec():
            return ScriptedModel(spec)
