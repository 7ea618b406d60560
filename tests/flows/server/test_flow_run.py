"""The experiment of a flow run, given as a file or a Variable."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from prefect.variables import Variable

from flows.display.errors import UsageError
from flows.server.flow_run import parse_declaration
from tests.flows.conftest import trial

pytestmark = pytest.mark.usefixtures("prefect")

CONTENT = trial().model_dump(mode="json")


@pytest.fixture
async def variable() -> AsyncIterator[str]:
    """Yield the name of a Variable, which is deleted afterwards."""
    yield "nightly-trial"
    await Variable.aunset("nightly-trial")


@pytest.mark.parametrize("content", [CONTENT, yaml.safe_dump(CONTENT)], ids=["object", "yaml"])
async def test_a_variable_holds_an_experiment(content: Any, variable: str) -> None:
    """As a JSON object, or as the text of an experiment file."""
    await Variable.aset(variable, content)
    assert await parse_declaration(variable) == trial()


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ({**CONTENT, "arm": "mini"}, "Variable nightly-trial: arm: unknown key"),
        ("name: [", "Variable nightly-trial is not YAML"),
        (3, "Variable nightly-trial: Input should be a valid dictionary"),
    ],
)
async def test_a_wrong_variable_is_named(content: Any, problem: str, variable: str) -> None:
    """The message names the Variable and the problem, in one line."""
    await Variable.aset(variable, content)
    with pytest.raises(UsageError, match=problem) as refused:
        await parse_declaration(variable)
    assert "\n" not in str(refused.value)


async def test_a_path_is_read(tmp_path: Path) -> None:
    """A name with a dot or a slash is that of a file."""
    path = tmp_path / "trial.yaml"
    path.write_text(yaml.safe_dump(CONTENT))
    assert await parse_declaration(str(path)) == trial()
    with pytest.raises(UsageError, match=r"cannot read nowhere.yaml: No such file"):
        await parse_declaration("nowhere.yaml")


async def test_a_missing_variable_is_wrong_usage() -> None:
    """The message says how to create it."""
    with pytest.raises(UsageError, match="no Variable 'weekly': create it under Variables"):
        await parse_declaration("weekly")
