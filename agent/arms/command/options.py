"""Options of an arm that is a program."""

from pydantic import Field, model_validator

from agent.arms.command.recipe import AnyRecipe, Recipe
from agent.arms.options import ArmOptions
from agent.errors import InvalidSpec
from agent.models.spec import ModelSpec


class CommandOptions(ArmOptions):
    """A program that speaks to a model API, and its limits."""

    recipe: AnyRecipe = Field(
        description="how the program is run: the name of a recipe, the path of one, or its content"
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
