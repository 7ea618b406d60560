"""The body of a request becomes a job, or one line that says why not."""

import json
from typing import Any
from urllib.parse import parse_qs

import pytest

from flows.jobs.service import pages
from flows.jobs.service.guard import Problem
from flows.jobs.service.orders import parse_job

MINIMAL = {"source": "octo/demo", "task": "Fix it.", "model": "openai/gpt-5"}


def made(content: Any, **defaults: Any) -> Any:
    return parse_job(json.loads(json.dumps(content)), defaults)


def test_a_body_needs_a_source_a_task_and_a_model() -> None:
    """Everything else has its default, and the job an id."""
    job = made(MINIMAL)
    assert [arm.name for arm in job.arms] == ["durable"]
    assert (job.publish, job.verify, job.environment) == ("patch", "auto", "docker")
    assert made(MINIMAL).job_id != job.job_id


def test_a_service_may_have_a_default_model_and_budget() -> None:
    """A body names its own. `repo_url` is another name of `source`, and nobody is a `user_id`."""
    short = {"repo_url": "octo/demo", "task": "Fix it.", "user_id": "me"}
    job = made(short, model="openai/gpt-5", budget_usd=2.5)
    assert (job.source, job.model.name, job.budget_usd) == ("octo/demo", "openai/gpt-5", 2.5)
    assert made({**short, "budget_usd": 1}, model="openai/gpt-5", budget_usd=2.5).budget_usd == 1


def test_arms_are_names_or_descriptions() -> None:
    """Both may be mixed, and an id is kept."""
    described = {"name": "two", "agent": "mini", "options": {"step_limit": 3}}
    job = made({**MINIMAL, "arms": ["durable", described], "id": "abcdef0123"})
    assert [arm.name for arm in job.arms] == ["durable", "two"]
    assert job.job_id == "abcdef0123"


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"task": " "}, "the task is empty"),
        ({"source": None}, "source: "),
        ({"model": None}, "arm 'durable' needs a model"),
        ({"arms": ["missing"]}, "there is no arm 'missing': name durable, "),
        ({"arms": ["null"]}, "there is no arm 'null': name durable, "),
        ({"arms": [{"name": "x", "agent": "gold"}]}, "arm 'x': the agent gold is for benchmarks"),
        ({"arms": "durable"}, "arms: a list of names"),
        ({"arms": []}, "arms: a list of names"),
        ({"arms": [{"name": "x", "agent": "missing"}]}, "arms.0: "),
        ({"budget_usd": -1}, "budget_usd: "),
        ({"task": "x" * 100_001}, "task: "),
        ({"nonsense": 1}, "nonsense: unknown key"),
        ({"id": "../../etc"}, "id: "),
        ({"token": "x"}, "token: unknown key"),
        ({"github_token": "x"}, "github_token: give the workers the token in DURABENCH_FORGE_"),
        ({"task": "use ghp_0123456789abcdefghij0123456789abcdef"}, "task: it holds a token of Git"),
        ({"source": "https://me:secret@forge.example/a/b"}, "source: it holds an address with a"),
        ({"model": {"name": "x", "sk-ant-" + "a1" * 20: 1}}, "model.a name: it holds a key of An"),
        ({"arms": ["sk-ant-" + "a1" * 20]}, "arms.0: it holds a key of Anthropic, which a flow"),
        ({"task": "\0"}, "task: it has a NUL"),
        ({"task": "\u200b \n"}, "the task is empty"),
        ({"budget_usd": float("inf")}, "budget_usd: Input should be a finite number"),
    ],
)
def test_a_body_that_is_no_job_is_refused(changes: dict[str, Any], said: str) -> None:
    """The message is one line that starts with the field."""
    with pytest.raises(Problem) as refused:
        made({**MINIMAL, **changes})
    assert refused.value.status == 422
    assert str(refused.value).startswith(said)
    assert "\n" not in str(refused.value)


def test_a_form_says_the_same_as_a_body() -> None:
    """Empty fields have their defaults, boxes are true or false, and the budget is a number."""
    text = "source=octo%2Fdemo&task=Fix+it.&model=openai%2Fgpt-5&arms=mini&arms=durable"
    fields = parse_qs(
        f"{text}&budget_usd=2.5&approve=yes&api_base=http%3A%2F%2F127.0.0.1%3A8000%2Fv1"
    )
    job = made(pages.build_content(pages.read_entries(fields)))
    assert (job.model.name, job.model.api_base) == ("openai/gpt-5", "http://127.0.0.1:8000/v1")
    assert [arm.name for arm in job.arms] == ["mini", "durable"]
    assert (job.budget_usd, job.approve, job.network, job.ref) == (2.5, True, False, None)


def test_a_form_with_a_budget_in_words_is_refused() -> None:
    """The message says what to enter."""
    with pytest.raises(Problem, match=r"budget_usd: give US dollars, such as 2\.50"):
        pages.build_content({**pages.EMPTY, "budget_usd": "two"})
