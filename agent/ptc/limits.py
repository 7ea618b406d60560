"""Limits on programs, as an experiment declares them."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

Count = Annotated[int, Field(ge=1, le=10_000)]


class Programs(BaseModel):
    """Limits on one program of the model, which learns when it reaches one."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    calls: Count = Field(default=200, description="tool calls")
    seconds: float = Field(default=10, gt=0, description="seconds of the interpreter's own work")
    memory_mb: Count = Field(default=64, description="megabytes of its variables")
    recursion: Count = Field(default=200, description="nested calls of functions")
    output_kb: Count = Field(default=64, description="kilobytes of its value and of its prints")
    code_kb: Count = Field(default=64, description="kilobytes of its code")
