"""Experiments that options declare, and files that options change."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from agent.models.spec import LiteLLMSpec
from flows.cli import declarations
from flows.display.errors import UsageError
from flows.experiments import declaration

VERIFIED = {"dataset": "SWE-bench/SWE-bench_Verified", "model": "openai/gpt-5-mini"}
ROOT = Path(__file__).parents[3]


def test_a_file_has_the_meaning_of_the_options() -> None:
    """The printed file parses to what the options declare, with the first pair of arms as the
    declared comparison."""
    content = declarations.declare(
        **VERIFIED,
        agents=["gold", "mini", "claude-code", "my_package.agents:solve", "null"],
        sample=20,
        budget_usd=5,
    )
    assert yaml.safe_load(declarations.format_file(content)) == content
    declared = declaration.parse(content, "options")
    assert [(arm.name, arm.agent) for arm in declared.arms] == [
        ("gold", "gold"),
        ("mini", "mini"),
        ("claude-code", "command"),
        ("my_package.agents-solve", "python"),
        ("null", "null"),
    ]
    assert declared.primary is not None
    assert (declared.primary.baseline, declared.primary.candidate) == ("mini", "claude-code")
    assert declared.budgets["experiment"].usd == 5


def test_what_is_continued_has_the_same_name() -> None:
    """A larger sample or budget and another arm continue an experiment; a model begins another."""
    content = declarations.declare(**VERIFIED, agents=["mini"], sample=5, budget_usd=1)
    more = declarations.declare(**VERIFIED, agents=["mini", "durable"], budget_usd=9)
    assert content["name"] == more["name"] == "swe-bench_verified-openai-gpt-5-mini"
    other = declarations.declare(dataset="rows/Mine.jsonl", model="x/y:z", agents=["mini"])
    assert other["name"] == "mine-x-y-z"


def test_a_model_can_be_a_whole_block(tmp_path: Path) -> None:
    """A local model needs more than an address, in a file or on the command line."""
    block = {"name": "openai/local", "context_tokens": 8192, "extra": {"top_k": 5}}
    file = tmp_path / "model.yaml"
    file.write_text(yaml.safe_dump(block))
    for model in (str(file), yaml.safe_dump(block, default_flow_style=True, width=999)):
        content = declarations.declare(agents=["mini"], model=model, api_base="http://h/v1")
        assert content["name"] == "bundled-openai-local"
        declared = declaration.parse(content, "options").model
        assert declared == LiteLLMSpec(**block, api_base="http://h/v1")


def test_a_block_with_a_name_alone_is_that_name() -> None:
    """The printed file has the model, and not the text of the option."""
    content = declarations.declare(agents=["mini"], model="{name: openai/local}")
    assert content["model"] == "openai/local"
    assert content == declarations.declare(agents=["mini"], model="openai/local")


@pytest.mark.parametrize(
    ("options", "because"),
    [
        ({"agents": ["mini"], "model": "{name: x"}, "--model is not YAML"),
        ({"agents": ["mini"], "model": "none.yaml"}, "cannot read none.yaml"),
        ({"agents": []}, r"durabench run --dataset .* --arm durable --sample 20 --budget 5$"),
        ({"agents": ["mini"]}, r"arm mini needs a model: .* --model openai/gpt-5-mini"),
        ({"agents": ["command"]}, r"no arm 'command': name mini, .*a recipe \(aider, "),
        ({"agents": ["gold"], "api_base": "http://x/v1"}, "--api-base goes with --model"),
    ],
)
def test_what_is_missing_is_one_line(options: dict[str, Any], because: str) -> None:
    """The line says what to type."""
    with pytest.raises(UsageError, match=because):
        declarations.declare(**options)


def test_an_address_alone_is_that_of_every_model_of_a_file() -> None:
    """The models stay the same, and so does a simulated one. Without a model it is refused."""
    content = {
        "name": "t",
        "model": {"name": "openai/qwen", "temperature": 0.5},
        "arms": [
            {"name": "a", "agent": "mini"},
            {"name": "b", "agent": "mini", "model": "openai/other"},
            {"name": "c", "agent": "mini", "model": {"provider": "simulated", "skill": 1}},
        ],
    }
    declared = declaration.parse(content, "file")
    changed = declarations.override(declared, api_base="http://h/v1")
    assert changed.model == declared.model.model_copy(update={"api_base": "http://h/v1"})  # type: ignore[union-attr]
    assert [arm.model and arm.model.model_dump().get("api_base") for arm in changed.arms] == [
        *(None, "http://h/v1", None)
    ]
    gold = declaration.parse({"name": "t", "arms": [{"name": "g", "agent": "gold"}]}, "file")
    with pytest.raises(UsageError, match="--api-base needs a model that it serves"):
        declarations.override(gold, api_base="http://h/v1")


def test_the_readme_shows_the_example() -> None:
    """`durabench init` writes what the README explains, and it is valid."""
    assert f"```yaml\n{declarations.EXAMPLE.read_text()}```" in (ROOT / "README.md").read_text()
    assert declaration.load(declarations.EXAMPLE).primary is not None
