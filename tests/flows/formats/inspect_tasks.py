"""Logs of Inspect, written by Inspect itself with its mock model."""

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from inspect_ai import Task, eval  # noqa: A004
from inspect_ai.agent import agent, as_tool, react
from inspect_ai.dataset import Sample
from inspect_ai.model import ModelOutput, ModelUsage, get_model
from inspect_ai.scorer import Score, Scorer, Target, accuracy, includes, scorer
from inspect_ai.solver import TaskState
from inspect_ai.tool import Tool, tool

MODEL = "mockllm/model"
INPUT, OUTPUT, READ, WRITTEN, REASONING = 100, 10, 60, 20, 3
"""Tokens of each call, the first one without cached ones."""


@tool
def bash() -> Tool:
    async def execute(command: str) -> str:
        """Run a command.

        Args:
            command: The command.
        """
        return "42\n"

    return execute


@tool
def read_file() -> Tool:
    async def execute(path: str) -> str:
        """Read a file.

        Args:
            path: The path.
        """
        raise FileNotFoundError(path)

    return execute


@agent
def searcher() -> Any:
    """Search."""
    return react(name="searcher", description="Searches.", tools=[bash()])


@scorer(metrics=[accuracy()])
def graded_by_a_model() -> Scorer:
    """Ask the model for a verdict, as many scorers do."""

    async def score(state: TaskState, target: Target) -> Score:
        await get_model().generate("Is it right?")
        return Score(value=0.5, metadata={"model_patch": "diff --git a/a b/a\n"})

    return score


def says(name: str | None, arguments: dict[str, Any], cost: float | None) -> ModelOutput:
    """Return an answer that uses a tool, or else one of text."""
    if name:
        output = ModelOutput.for_tool_call(MODEL, name, arguments)
    else:
        output = ModelOutput.from_content(MODEL, "yes")
    output.usage = ModelUsage(
        input_tokens=INPUT,
        output_tokens=OUTPUT,
        total_tokens=INPUT + OUTPUT + READ + WRITTEN,
        input_tokens_cache_read=READ,
        input_tokens_cache_write=WRITTEN,
        reasoning_tokens=REASONING,
        total_cost=cost,
    )
    return output


def script(answer: str, cost: float | None) -> list[ModelOutput]:
    """Return the answers of one sample: four of the agent, and two of a subagent."""
    return [
        says("bash", {"command": "cat answer"}, cost),
        says("searcher", {"input": "find it"}, cost),
        says("bash", {"command": "grep"}, cost),
        says("submit", {"answer": "found"}, cost),
        says("read_file", {"path": "/none"}, cost),
        says("submit", {"answer": answer}, cost),
    ]


def run(
    folder: Path,
    answers: Sequence[str] = ("42",),
    *,
    cost: float | None = 0.01,
    form: str = "eval",
    scorers: Sequence[Scorer] | None = None,
    **options: Any,
) -> Path:
    """Run a task of one sample, with an epoch for each answer. Return its log."""
    outputs = [output for answer in answers for output in script(answer, cost)]
    if scorers:
        outputs += [says(None, {}, cost)] * len(answers)
    task = Task(
        name="answers",
        dataset=[Sample(id="a__b-1", input="What is the answer?", target="42")],
        solver=react(name="hand", tools=[bash(), read_file(), as_tool(searcher())]),
        scorer=list(scorers or [includes()]),
    )
    model = get_model(MODEL, custom_outputs=outputs, memoize=False)
    before = set(folder.glob("*"))
    with warnings.catch_warnings():
        # Inspect uses what tenacity deprecates, and a warning would end the sample.
        warnings.simplefilter("ignore", DeprecationWarning)
        eval(
            task,
            model=model,
            epochs=len(answers),
            max_samples=1,
            log_dir=str(folder),
            log_format=form,
            display="none",
            **options,
        )
    [log] = set(folder.glob("*")) - before
    return log
