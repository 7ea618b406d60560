"""`durabench agents`: recipes, and what admits one."""

import tempfile
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from agent.arms.command.recipe import CommandOptions, Recipe, list_shipped_recipes, load
from flows.cli.app import app
from tests.agent.arms.command.programs import TINY, tiny
from tests.flows.cli.test_app import fails

pytestmark = [pytest.mark.slow]


@pytest.fixture(autouse=True)
def temporary(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Path:
    """Work in an empty folder. Return the folder of temporary files."""
    monkeypatch.chdir(tmp_path)
    folder = tmp_path_factory.mktemp("t")
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def written(content: dict[str, object]) -> str:
    path = Path("recipe.yaml")
    path.write_text(yaml.safe_dump(content))
    return str(path)


def test_every_recipe_is_listed_and_shown() -> None:
    """`list` names each recipe with its release, which it installs, and `show` prints one that can
    be read again."""
    listed = CliRunner().invoke(app, ["agents", "list"])
    assert [line.split()[0] for line in listed.output.splitlines()] == list_shipped_recipes()
    for name in list_shipped_recipes():
        shown = CliRunner().invoke(app, ["agents", "show", name])
        assert Recipe.model_validate(yaml.safe_load(shown.output)) == load(name)
        assert load(name).version in listed.output
        assert load(name).of_release("0.0").version == "0.0"


@pytest.mark.parametrize(
    ("change", "because"),
    [
        ({"run": None}, "run: "),
        (
            {"dialect": "morse"},
            "dialect: Input should be 'chat', 'messages', 'responses' or 'gemini'",
        ),
        ({"instal": {}}, "instal: "),
        ({"runtime": "node@latest"}, "runtime: String should match pattern"),
        ({"install": {"folder": "/x", "image": "y"}}, "install: name an image or a folder"),
        ({"claimed_usd": "no group"}, "claimed_usd: needs exactly one group"),
        ({"claimed_usd": "("}, "claimed_usd: not a regular expression"),
    ],
)
def test_an_invalid_recipe_is_one_line(change: dict[str, object], because: str) -> None:
    content = {"name": "x", "dialect": "chat", "run": "true", **change}
    path = written({name: value for name, value in content.items() if value is not None})
    fails("agents", "show", path, because=because)
    fails("agents", "check", path, because=because)


def test_an_unknown_recipe_names_the_known_ones() -> None:
    fails("agents", "show", "missing", because="no recipe 'missing': name one of ")
    Path("list.yaml").write_text("- 1")
    fails("agents", "show", "list.yaml", because="not a mapping")
    Path("broken.yaml").write_text("a: [")
    fails("agents", "show", "broken.yaml", because="not YAML")


def test_a_program_runs_through_the_agent_client_protocol() -> None:
    """The recipe of `acp:` adds the client and its Node, and keeps all but `run`."""
    plain, through = load("opencode"), load("acp:opencode")
    assert plain.source is not None
    assert through.source is not None
    added = [
        "npm install --prefix /opt/agent node@22",
        "npm install --prefix /opt/agent acpx@0.19.1",
    ]
    assert str(through.source.run).splitlines() == [added[0], str(plain.source.run), added[1]]
    changed = {"name": "", "runtime": None, "install": None, "run": "x"}
    assert through.model_copy(update=changed) == plain.model_copy(update=changed)
    fails("agents", "show", "acp:aider", because="recipe aider has no `acp`")
    fails("agents", "check", "acp:missing", because="no recipe 'missing': name one of ")


@pytest.mark.full
def test_a_program_that_swallows_errors_is_not_admitted() -> None:
    """An unreachable provider ends the attempt as infrastructure, whatever the program does; a
    release other than the stated one fails."""
    recipe = tiny("chat", version="2.0", probe="echo tiny 1.0", run=f"python {TINY} chat || true")
    path = written(recipe.model_dump(mode="json"))
    checked = CliRunner().invoke(app, ["agents", "check", path, "--environment", "host"])
    assert checked.exit_code == 1, checked.output
    failed = [line for line in checked.output.splitlines() if line.startswith("FAIL")]
    assert [line.split()[1] for line in failed] == ["version"]


@pytest.mark.full
@pytest.mark.parametrize(
    ("run", "because"),
    [
        ("no-such-program", "the program is not in this workspace: "),
        ("echo no licence; exit 1", "exit code 1 before its first model call: no licence"),
        ("echo there is no perl; exit 253", "cannot reach its model: there is no perl"),
    ],
)
def test_a_program_that_is_not_there_is_one_line(run: str, because: str) -> None:
    """It is the recipe that has to be changed."""
    path = written(tiny("chat", run=run).model_dump(mode="json"))
    fails("agents", "check", path, "--environment", "host", because=because)


def test_another_release_is_installed_and_checked() -> None:
    """It takes the place of the recipe's own wherever that is installed."""
    options = CommandOptions(recipe=load("codex"), release="0.170.0")
    assert options.program.version == "0.170.0"
    assert options.program.install is not None
    assert options.program.install.run == ("npm install --prefix /opt/agent @openai/codex@0.170.0")
    path = written(tiny("chat").model_dump(mode="json"))
    because = "recipe tiny does not name its release in `install`"
    fails("agents", "check", path, "--release", "2.0", "--environment", "host", because=because)
