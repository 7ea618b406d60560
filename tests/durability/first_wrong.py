"""A model for the durable arm with which every step needs several parallel candidates."""

from agent.models.protocol import ModelInfo, ModelReply, ModelRequest
from agent.models.simulated import SimulatedModel
from agent.models.spec import SimulatedSpec
from agent.types import Task
from tests.agent.models.simulations import TRUTHFUL

TWINS = ("step-1/candidate-1", "step-1/candidate-2")
"""The scopes of the two candidates that run concurrently in the first step."""


class FirstWrong:
    """The simulated model; wrong as the first candidate of a step, right in every other role.

    Reviewers reject the first candidate, so the arm creates two more.
    """

    info = ModelInfo("first-wrong", "litellm")

    def __init__(self, task: Task) -> None:
        self._wrong, self._right = (
            SimulatedModel(SimulatedSpec(provider="simulated", skill=skill, **TRUTHFUL), task, 0)
            for skill in (0, 1)
        )

    async def complete(self, request: ModelRequest) -> ModelReply:
        model = self._wrong if "candidate-0" in request.scope else self._right
        return await model.complete(request)
