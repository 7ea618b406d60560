"""The base of what a role answers at the end of its conversation."""

from pydantic import BaseModel, ConfigDict


class Answer(BaseModel):
    """Base of all answers: unknown fields are errors, so that a misspelt one is noticed."""

    model_config = ConfigDict(extra="forbid", frozen=True)
