"""The checks of a definition that need no repository."""

from typing import Any

import pytest

from flows.display.errors import UsageError
from flows.jobs import definition
from flows.jobs.definition import MissingOutput

MINI = {"name": "mini", "agent": "mini", "model": {"provider": "simulated", "skill": 1}}


def pipeline(*steps: dict[str, Any], **changes: Any) -> definition.Pipeline:
    """Return a checked definition with these steps."""
    content = {"name": "p", "source": "octo/demo", "arms": [MINI], "steps": list(steps), **changes}
    return definition.parse(content, "p.yaml")


def step(name: str, *depends_on: str, task: str = "Do it.", **changes: Any) -> dict[str, Any]:
    return {"name": name, "task": task, "depends_on": list(depends_on), **changes}


def test_steps_are_ordered_in_layers() -> None:
    """A step comes after all that it depends on, and otherwise in the order given."""
    checked = pipeline(step("d", "b", "c"), step("b", "a-1"), step("c", "a-1"), step("a-1"))
    assert [[each.name for each in layer] for layer in checked.layers] == [
        ["a-1"],
        ["b", "c"],
        ["d"],
    ]
    assert checked.upstream("d") == {"a-1", "b", "c"}


USES = "Use {{steps.a-1.output.summary}}."


@pytest.mark.parametrize(
    ("steps", "problem"),
    [
        ([step("a"), step("a")], "two steps are named a: rename one"),
        ([step("a", "b")], "step a depends on b, which does not exist: the steps are a"),
        ([step("a", "a")], "step a depends on itself"),
        ([step("a", "b"), step("b", "a")], "steps depend on each other: "),
        ([step("a", task=USES)], "uses an output of step a-1, which does not exist"),
        (
            [step("a-1"), step("b", task=USES)],
            "step b uses an output of step a-1, which is not upstream of it: add it to depends_on",
        ),
        (
            [step("a-1"), step("b", "a-1", task="{{steps.a-1.output.colour}}")],
            "steps have no output 'colour' but summary, patch,",
        ),
        (
            [step("a-1"), step("b", "a-1", task="{{ steps.a-1 }}")],
            "is not a template: write {{steps.NAME.output.KEY}}",
        ),
        ([step("a", arm="other")], "step a names arm 'other': the arms are mini"),
        ([step("a b")], "steps.0.name: String should match pattern"),
        ([step("a", task=" \n")], "the task of step a is empty: say what to do"),
        (
            [step("a", task="x" * 60_000), step("b", task="x" * 60_000)],
            "the tasks have 120,017 characters together, and at most 100,000 are allowed",
        ),
        ([step("a", on_failure="retry")], "steps.0.on_failure: Input should be 'stop' or 'cont"),
        ([], "steps: List should have at least 1 item"),
    ],
)
def test_a_definition_that_cannot_run_is_refused_in_one_line(
    steps: list[dict[str, Any]], problem: str
) -> None:
    """The line names the file, the step and what to do."""
    with pytest.raises(UsageError) as refused:
        pipeline(*steps)
    assert str(refused.value).startswith("p.yaml: ")
    assert problem in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    "schedule",
    [{"cron": "every day"}, {"cron": "61 4 * * *"}, {"cron": "0 4 * * *", "timezone": "Mars"}],
)
def test_a_schedule_that_is_none_is_refused(schedule: dict[str, str]) -> None:
    """The server would refuse it only when the definition is deployed."""
    with pytest.raises(UsageError, match="is not a schedule: write five fields") as refused:
        pipeline(step("a"), schedule=schedule)
    assert "\n" not in str(refused.value)
    assert pipeline(step("a"), schedule={"cron": "0 4 * * 1", "timezone": "Europe/Berlin"})


def test_outputs_that_make_a_task_too_long_fail_its_step() -> None:
    """A patch may be long, which a definition cannot know."""
    with pytest.raises(MissingOutput, match="has 100,012 characters with the outputs of other"):
        definition.fill(USES, {"a-1": {"summary": "x" * 100_007}})


def test_templates_are_filled_and_other_braces_are_left() -> None:
    """Names and keys may have hyphens and underscores, and outputs are not read as templates."""
    task = "{{steps.a-1.output.summary}} {{ steps.b_2.output.verdict }} {{ cookiecutter.x }}"
    outputs = {"a-1": {"summary": "{{steps.b_2.output.verdict}}"}, "b_2": {"verdict": "verified"}}
    assert definition.fill(task, outputs) == (
        "{{steps.b_2.output.verdict}} verified {{ cookiecutter.x }}"
    )


def test_a_missing_output_is_named() -> None:
    """A step that failed left none."""
    with pytest.raises(MissingOutput, match="step a-1 left no summary"):
        definition.fill(USES, {"a-1": {}})
