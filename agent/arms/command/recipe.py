"""Recipes to install and run a program."""

import re
import shlex
from pathlib import Path
from typing import Annotated, Any

import yaml
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    field_validator,
    model_validator,
)

from agent.arms.options import ArmOptions
from agent.errors import InvalidSpec
from agent.models.requests import Dialect
from agent.models.spec import ModelSpec

FOLDER = Path(__file__).resolve().parents[2] / "recipes"

_NAME = r"^[a-z0-9][a-z0-9._-]*$"

ACP = "acp:"
"""Before a recipe: its program is run through the Agent Client Protocol."""

_ACP_INSTALL = "npm install --prefix /opt/agent acpx@0.19.1\n"
_ACP_RUN = """\
export DURABENCH_ACP={command}
"$DURABENCH_RUNTIME" "$DURABENCH_AGENT/node_modules/acpx/dist/cli.js" --approve-all --no-fs \\
  --no-terminal --agent "bash -c 'eval \\"\\$DURABENCH_ACP\\"'" exec --file "$DURABENCH_TASK_FILE"
"""


class Install(BaseModel):
    """The source of a program's files. Containers see them in `/opt/agent`, read-only."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    image: str | None = Field(
        default=None, description="image in which `run` installs, or that has the folder already"
    )
    run: str | None = Field(
        default=None, description="shell script that fills `/opt/agent`, with network, once"
    )
    folder: Path | None = Field(
        default=None, description="folder of this machine with the installed program"
    )

    @model_validator(mode="after")
    def _one_source(self) -> "Install":
        if (self.image is None) == (self.folder is None):
            raise ValueError("name an image or a folder")
        if self.run and self.folder:
            raise ValueError("`run` installs in an image, not in a folder")
        return self


class Recipe(BaseModel):
    """A program: how it is installed and run, and all that durabench has to know about it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = Field(pattern=_NAME, description="name of the program")
    description: str = Field(default="", description="what it is, in one line")
    version: str = Field(default="", description="the release that the recipe was written for")
    dialect: Dialect = Field(
        description="API that it speaks: chat (OpenAI's chat completions), messages (Anthropic's), "
        "responses (OpenAI's) or gemini (Google's generateContent)"
    )
    run: str = Field(
        min_length=1,
        description="shell command that solves the task in `$DURABENCH_TASK`, in the repository",
    )
    probe: str = Field(default="", description="shell command that prints the release")
    install: Install | None = Field(
        default=None, description="default: the image of each instance has the program"
    )
    runtime: str | None = Field(
        default=None,
        pattern=r"^node@[1-9][0-9]*$",
        description="interpreter of the program, such as `node@22`: npm adds it to `/opt/agent` "
        "before `install.run`, and `$DURABENCH_RUNTIME` is its path",
    )
    acp: str | None = Field(
        default=None,
        min_length=1,
        description="shell command that starts the program as an agent of the Agent Client "
        "Protocol, for `recipe: acp:NAME`",
    )
    environment: dict[str, str] = Field(
        default_factory=dict,
        description="variables; `$DURABENCH_URL`, `$DURABENCH_KEY` and `$DURABENCH_MODEL` are the "
        "gateway's address, its key and the name to ask for",
    )
    models: dict[str, str] = Field(
        default_factory=dict,
        description="role of each requested model by pattern, such as `*haiku*: small`; others "
        "have the arm's model",
    )
    volatile: list[str] = Field(
        default_factory=list,
        description="paths of request fields that differ from run to run, such as `metadata`",
    )
    volatile_text: list[str] = Field(
        default_factory=list,
        description="regular expressions of such parts of a request as JSON, such as "
        "`Wall time: [0-9.]+`",
    )
    own_files: list[str] = Field(
        default_factory=list,
        description="files and folders that the program leaves in the repository, no part of its "
        "patch",
    )
    claimed_usd: str | None = Field(
        default=None,
        description="regular expression whose group is the cost that the program's output claims; "
        "the last match counts",
    )

    @field_validator("claimed_usd")
    @classmethod
    def _has_a_group(cls, pattern: str | None) -> str | None:
        if pattern is not None and _compile_pattern(pattern).groups != 1:
            raise ValueError("needs exactly one group")
        return pattern

    @field_validator("volatile_text")
    @classmethod
    def _are_patterns(cls, patterns: list[str]) -> list[str]:
        for pattern in patterns:
            _compile_pattern(pattern)
        return patterns

    @property
    def source(self) -> Install | None:
        """The source of the program's files, with its interpreter."""
        if self.runtime is None or self.install is None or self.install.run is None:
            return self.install
        add = f"npm install --prefix /opt/agent {self.runtime}"
        return self.install.model_copy(update={"run": f"{add}\n{self.install.run}"})

    def of_release(self, release: str) -> "Recipe":
        """Return the recipe for another release of the program.

        Raises:
            ValueError: the recipe does not install its release by name.
        """
        named = (self.install.run or self.install.image or "") if self.install else ""
        if not self.version or self.version not in named:
            raise ValueError(f"recipe {self.name} does not name its release in `install`")
        assert self.install is not None
        texts = {name: getattr(self.install, name) for name in ("image", "run")}
        changed = {
            name: text and text.replace(self.version, release) for name, text in texts.items()
        }
        install = self.install.model_copy(update=changed)
        return self.model_copy(update={"version": release, "install": install})

    def claim(self, output: str) -> float | None:
        """Return the cost that the output claims, or None."""
        if self.claimed_usd is None:
            return None
        claims = re.findall(self.claimed_usd, output)
        try:
            return float(claims[-1]) if claims else None
        except ValueError:
            return None


def _compile_pattern(pattern: str) -> re.Pattern[str]:
    try:
        return re.compile(pattern)
    except re.error as error:
        raise ValueError(f"not a regular expression: {error}") from None


def list_shipped_recipes() -> list[str]:
    """Return the names of the recipes that come with this package."""
    return sorted(path.stem for path in FOLDER.glob("*.yaml"))


def load(name: str) -> Recipe:
    """Read the recipe of a name or at a path.

    Raises:
        InvalidSpec: there is none, or it is invalid; the message is one line.
    """
    try:
        return Recipe.model_validate(_read(name))
    except ValidationError as error:
        problems = (
            f"{'.'.join(map(str, problem['loc']))}: {problem['msg'].removeprefix('Value error, ')}"
            for problem in error.errors(include_url=False)
        )
        raise InvalidSpec(f"recipe {name}: {'; '.join(problems)}") from None
    except ValueError as error:
        raise InvalidSpec(str(error)) from None


def _read(value: Any) -> Any:
    """Return the content of a recipe that is given by name or path."""
    if not isinstance(value, str):
        return value
    if value.startswith(ACP):
        return _over_acp(load(value.removeprefix(ACP)))
    path = FOLDER / f"{value}.yaml"
    if not re.fullmatch(_NAME, value) or not path.is_file():
        path = Path(value)
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError:
        raise ValueError(
            f"no recipe {value!r}: name one of {', '.join(list_shipped_recipes())}, "
            "or the path of a file"
        ) from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is not YAML: {' '.join(str(error).split())}") from None
    if not isinstance(content, dict):
        raise ValueError(f"{path} is not a mapping of names to values")
    return content


def _over_acp(recipe: Recipe) -> Recipe:
    """Return a recipe that runs the same program through a client of its protocol."""
    if recipe.acp is None:
        raise ValueError(f"recipe {recipe.name} has no `acp`")
    install = recipe.install
    if install and install.run:
        install = install.model_copy(update={"run": f"{install.run}\n{_ACP_INSTALL}"})
    run = _ACP_RUN.format(command=shlex.quote(recipe.acp))
    runtime = recipe.runtime or "node@22"
    changes = {"name": f"acp-{recipe.name}", "runtime": runtime, "install": install, "run": run}
    return recipe.model_copy(update=changes)


AnyRecipe = Annotated[Recipe, BeforeValidator(_read, json_schema_input_type=str | Recipe)]
"""A recipe, or the name or path of one. The content is part of the declaration."""


class CommandOptions(ArmOptions):
    """A program that speaks to a model API, and its limits."""

    recipe: AnyRecipe = Field(
        description="how the program is run: the name or path of a recipe, after `acp:` through "
        "the Agent Client Protocol, or its content"
    )
    release: str | None = Field(
        default=None,
        min_length=1,
        description="release of the program, instead of the one that the recipe installs",
    )
    run_limit_s: float = Field(
        default=3600,
        gt=0,
        description="seconds for one run of the program; its change so far then counts",
    )
    roles: dict[str, ModelSpec] = Field(
        default_factory=dict,
        description="models of the roles that the recipe names; default the arm's model",
    )

    @model_validator(mode="after")
    def _has_the_release(self) -> "CommandOptions":
        _ = self.program
        return self

    @property
    def program(self) -> Recipe:
        """The recipe of the declared release.

        Raises:
            ValueError: as in `Recipe.of_release`.
        """
        return self.recipe if self.release is None else self.recipe.of_release(self.release)

    def models(self, own: ModelSpec) -> dict[str, ModelSpec]:
        """Return the models of the roles that have their own.

        Raises:
            InvalidSpec: the recipe maps no model to a role that is declared here.
        """
        unknown = sorted(self.roles.keys() - set(self.recipe.models.values()))
        if unknown:
            raise InvalidSpec(f"recipe {self.recipe.name} has no role {', '.join(unknown)}")
        return {"": own, **self.roles}
