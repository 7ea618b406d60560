"""Documents that would go stale: each states something that can be checked."""

import importlib
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.main import get_command

from agent.timings import Timings, variable
from flows.cli.app import app
from reports.columns import TABLES

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text()
DEPLOYMENTS = yaml.safe_load((ROOT / "prefect.yaml").read_text())["deployments"]


def commands() -> list[str]:
    """Every command, groups spelled out, as `import mini`."""
    found = []
    for name, command in get_command(app).commands.items():  # type: ignore[attr-defined]
        inner = getattr(command, "commands", None)
        found += [f"{name} {sub}" for sub in inner] if inner else [name]
    return found


@pytest.mark.parametrize("command", commands())
def test_the_readme_names_every_command(command: str) -> None:
    """In the table of commands, with the program's name."""
    assert f"`durabench {command}" in README


def test_every_command_of_the_readme_exists() -> None:
    """Nothing is promised that the program does not have."""
    named = re.findall(r"durabench ((?:images|import)? ?[a-z]+)", README)
    assert {" ".join(name.split()) for name in named} <= {*commands()}


@pytest.mark.parametrize("table", TABLES)
def test_the_readme_names_every_table(table: str) -> None:
    """The columns are in reports/TABLES.md, which has a test of its own."""
    assert f"`{table}`" in README


def test_links_of_the_readme_lead_somewhere() -> None:
    """Files and folders that the README points at are there."""
    links = [link for link in re.findall(r"\]\(([^)]+)\)", README) if "://" not in link]
    assert links
    assert [link for link in links if not (ROOT / link).exists()] == []


def test_make_targets_of_the_readme_exist() -> None:
    """`make x` in the README is a target of the Makefile."""
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert set(re.findall(r"make ([a-z-]+)", README)) <= targets


def test_the_example_experiment_of_the_readme_is_valid() -> None:
    """Whoever copies it gets no error."""
    from flows.experiments import declaration

    blocks = re.findall(r"```yaml\n(.*?)```", README, re.DOTALL)
    contents = [yaml.safe_load(block) for block in blocks]
    together = {k: v for block in contents if isinstance(block, dict) for k, v in block.items()}
    assert declaration.parse(together, "README").primary is not None
    [arm] = [arm for block in contents if isinstance(block, list) for arm in block]
    assert declaration.parse(
        {**together, "arms": [arm], "primary": None, "family": []}, "README"
    ).arms


@pytest.mark.parametrize("deployment", DEPLOYMENTS, ids=lambda deployment: deployment["name"])
def test_deployments_resolve(deployment: dict[str, Any]) -> None:
    """The entrypoint is a flow that takes the deployment's parameters; each says what it is."""
    path, name = deployment["entrypoint"].split(":")
    flow = getattr(importlib.import_module(path.removesuffix(".py").replace("/", ".")), name)
    parameters = deployment.get("parameters", {})
    assert parameters.keys() <= flow.parameters.properties.keys()
    if "experiment" in parameters and isinstance(parameters["experiment"], dict):
        from flows.experiments.declaration import Experiment

        Experiment.model_validate(parameters["experiment"])
    assert deployment["description"]


def test_the_page_of_operation_has_every_timing() -> None:
    """With its default and its reason, in the order of the class."""
    page = (ROOT / "flows" / "operation" / "README.md").read_text()
    rows = [line for line in page.splitlines() if re.match(r"\| `DURABENCH_\w+_S`", line)]
    reasons = {name: field.description or "" for name, field in Timings.model_fields.items()}
    assert rows == [
        f"| `{variable(name)}` | {getattr(Timings(), name):g} | {' '.join(reason.split())} |"
        for name, reason in reasons.items()
    ]
