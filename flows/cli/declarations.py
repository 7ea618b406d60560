"""Experiments as the command line declares them: by options alone, or by a file with changes."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from flows.display.errors import UsageError
from flows.experiments import declaration
from flows.experiments.arms import make_arm, make_name, needs_model
from flows.experiments.declaration import Experiment
from flows.experiments.resources import Resources

EXAMPLE = declaration.BUILT_IN / "example.yaml"
"""The file that `durabench init` writes. The README shows it."""

HOW_TO_BEGIN = (
    "name an experiment file (`durabench init` writes one), or say what to run: durabench run "
    "--dataset SWE-bench/SWE-bench_Verified --model openai/gpt-5-mini --arm mini --arm durable "
    "--sample 20 --budget 5"
)


def declare(
    *,
    agents: Sequence[str],
    dataset: str | None = None,
    model: str | None = None,
    api_base: str | None = None,
    sample: int | None = None,
    budget_usd: float | None = None,
    name: str | None = None,
    environment: str | None = None,
    concurrency: int | None = None,
) -> dict[str, Any]:
    """Return the experiment that options stand for, as the content of a file.

    The first two arms with a model are its primary comparison. The default name is derived from
    the dataset and the model alone, so that another arm, a larger sample or a larger budget
    continues the experiment.

    Raises:
        UsageError: an agent does not exist, or no agent or no model is named.
    """
    if not agents:
        raise UsageError(HOW_TO_BEGIN)
    arms = [make_arm(agent) for agent in agents]
    with_model = [arm["name"] for arm in arms if needs_model(arm["agent"])]
    spec = read_model(model, api_base)
    if with_model and spec is None:
        raise UsageError(
            f"arm {with_model[0]} needs a model: add --model openai/gpt-5-mini or another"
        )
    dataset, of_arms = dataset or "bundled", "-".join(arm["name"] for arm in arms)
    content = {
        "name": name or _derive_name(dataset, str((spec or {}).get("name", of_arms))),
        "dataset": dataset,
        "select": {"sample": sample} if sample is not None else None,
        "environment": environment,
        "model": _shorten(spec) if with_model and spec else None,
        "arms": arms,
        "primary": dict(zip(("baseline", "candidate"), with_model, strict=False))
        if len(with_model) > 1
        else None,
        "budgets": {"experiment": {"usd": budget_usd}} if budget_usd is not None else None,
        "concurrency": concurrency,
    }
    return {key: value for key, value in content.items() if value is not None}


def _shorten(spec: dict[str, Any]) -> dict[str, Any] | str:
    """Return a model as a file names it: a string if that says everything."""
    name = str(spec.get("name"))
    return name if spec == {"provider": "litellm", "name": name} else spec


def _derive_name(dataset: str, rest: str) -> str:
    """Return a name of results with the last part of a dataset's path or address."""
    last = re.sub(r"\.(parquet|jsonl?)$", "", dataset.rstrip("/").rpartition("/")[2])
    return make_name(f"{last}-{rest}")


def format_file(content: dict[str, Any]) -> str:
    """Return the file that declares an experiment, with comments on its use."""
    text = yaml.safe_dump(content, sort_keys=False, allow_unicode=True, default_flow_style=None)
    file = f"{content['name']}.yaml"
    return (
        f"# These options stand for this file. Save it as {file} to change it.\n{text}"
        f"# The same command resumes it, and so does: durabench run {file}"
    )


def write_example(path: Path) -> None:
    """Write an experiment file with comments.

    Raises:
        UsageError: the file exists, or cannot be written.
    """
    try:
        with path.open("x") as file:
            file.write(EXAMPLE.read_text())
    except FileExistsError:
        raise UsageError(f"{path} exists: name another file, or run it") from None
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}") from None


def override(
    declared: Experiment,
    *,
    model: str | None = None,
    api_base: str | None = None,
    environment: str | None = None,
    name: str | None = None,
    concurrency: int | None = None,
    resources: str | None = None,
) -> Experiment:
    """Return the experiment with the changes from the command line.

    Without a model, the address applies to every LiteLLM model of the experiment and its arms.

    Raises:
        UsageError: a value is invalid, or an address has no model.
    """
    content = declared.model_dump(mode="json")
    changes = {"environment": environment, "name": name, "concurrency": concurrency}
    content.update({key: value for key, value in changes.items() if value is not None})
    if resources:
        limits = Resources.parse(resources).model_dump(exclude_none=True)
        content["resources"] = {**content["resources"], **limits}
    if model:
        content["model"] = read_model(model, api_base)
        for arm in content["arms"]:
            arm["model"] = None
    elif api_base:
        models = [place["model"] for place in (content, *content["arms"]) if place["model"]]
        served = [spec for spec in models if spec["provider"] == "litellm"]
        if not served:
            raise UsageError("--api-base needs a model that it serves: name one with --model")
        for spec in served:
            spec["api_base"] = api_base
    return declaration.parse(content, "command line")


def read_model(model: str | None, api_base: str | None) -> dict[str, Any] | None:
    """Return the model that options name, or None.

    It is a model string, a `model` block as YAML in braces, or the path of a file with one.

    Raises:
        UsageError: there is an address without a model, or the block cannot be read.
    """
    if model is None:
        if api_base is not None:
            raise UsageError("--api-base goes with --model")
        return None
    if model.lstrip().startswith("{"):
        block = declaration.from_yaml(model, "--model")
    elif model.endswith((".yaml", ".yml")):
        block = declaration.mapping(Path(model))
    else:
        block = {"name": model}
    address = {"api_base": api_base} if api_base else {}
    return {"provider": "litellm", **block, **address}
