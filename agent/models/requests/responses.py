"""OpenAI's responses."""

from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag

from agent.models.requests.parts import (
    Attachment,
    ContentUrl,
    Fraction,
    Json,
    Level,
    Limit,
    Part,
    Picture,
    Reasoning,
    Temperature,
    Word,
    refusal,
)


class Text(Part):
    type: Literal["input_text", "output_text", "text"]
    text: str
    annotations: list[Json] | None = None


class Image(Picture):
    CONTENT = ("image_url",)

    type: Literal["input_image"]
    image_url: ContentUrl
    detail: Level | None = None


class File(Attachment):
    CONTENT = ("file_data",)

    type: Literal["input_file"]
    file_data: ContentUrl
    filename: Word | None = None


class Refusal(Part):
    type: Literal["refusal"]
    refusal: str


Content = str | list[Annotated[Text | Image | File | Refusal, Field(discriminator="type")]]


class Item(Part):
    id: Word | None = None
    status: Word | None = None


class Message(Item):
    type: Literal["message"] = "message"
    role: Literal["system", "developer", "user", "assistant"]
    content: Content
    phase: Word | None = None


class FunctionCall(Item):
    type: Literal["function_call"]
    call_id: Word
    name: Word
    namespace: Word | None = None
    arguments: str


class FunctionOutput(Item):
    type: Literal["function_call_output"]
    call_id: Word
    output: Content


class CustomCall(Item):
    type: Literal["custom_tool_call"]
    call_id: Word
    name: Word
    namespace: Word | None = None
    input: str


class CustomOutput(Item):
    type: Literal["custom_tool_call_output"]
    call_id: Word
    output: Content


class LocalShellCall(Item):
    type: Literal["local_shell_call"]
    call_id: Word | None = None
    action: Json


class LocalShellOutput(Item):
    type: Literal["local_shell_call_output"]
    call_id: Word | None = None
    output: str


class ShellCall(Item):
    type: Literal["shell_call"]
    call_id: Word
    action: Json


class ShellOutput(Item):
    type: Literal["shell_call_output"]
    call_id: Word
    output: list[Json]
    max_output_length: int | None = None


class PatchCall(Item):
    type: Literal["apply_patch_call"]
    call_id: Word
    operation: Json


class PatchOutput(Item):
    type: Literal["apply_patch_call_output"]
    call_id: Word
    output: str | None = None


def _kind_of_item(item: Any) -> str | None:
    kind = item.get("type") if isinstance(item, dict) else getattr(item, "type", None)
    return "message" if kind is None and isinstance(item, dict) and "role" in item else kind


InputItem = Annotated[
    Annotated[Message, Tag("message")]
    | Annotated[FunctionCall, Tag("function_call")]
    | Annotated[FunctionOutput, Tag("function_call_output")]
    | Annotated[CustomCall, Tag("custom_tool_call")]
    | Annotated[CustomOutput, Tag("custom_tool_call_output")]
    | Annotated[LocalShellCall, Tag("local_shell_call")]
    | Annotated[LocalShellOutput, Tag("local_shell_call_output")]
    | Annotated[ShellCall, Tag("shell_call")]
    | Annotated[ShellOutput, Tag("shell_call_output")]
    | Annotated[PatchCall, Tag("apply_patch_call")]
    | Annotated[PatchOutput, Tag("apply_patch_call_output")]
    | Annotated[Reasoning, Tag("reasoning")],
    Discriminator(_kind_of_item),
]


class FunctionTool(Part):
    type: Literal["function"]
    name: Word
    description: str | None = None
    parameters: Json | None = None
    strict: bool | None = None


class CustomTool(Part):
    type: Literal["custom"]
    name: Word
    description: str | None = None
    format: Json | None = None


class Namespace(Part):
    """Several tools of the program under one name."""

    type: Literal["namespace"]
    name: Word
    description: str | None = None
    tools: list[Annotated[FunctionTool | CustomTool, Field(discriminator="type")]]


class LocalShell(Part):
    type: Literal["local_shell"]


class Place(Part):
    type: Literal["local"]


class Shell(Part):
    """OpenAI's shell, where the program runs its commands."""

    type: Literal["shell"]
    environment: Place


class ApplyPatch(Part):
    type: Literal["apply_patch"]


Tool = Annotated[
    FunctionTool | CustomTool | Namespace | LocalShell | Shell | ApplyPatch,
    Field(discriminator="type"),
]


class Choice(Part):
    type: Literal["function", "custom"]
    name: Word


class Allowed(Part):
    type: Literal["allowed_tools"]
    mode: Literal["auto", "required"]
    tools: list[Choice]


class Format(Part):
    type: Literal["text", "json_object", "json_schema"]
    name: Word | None = None
    schema_: Json | None = Field(default=None, alias="schema")
    strict: bool | None = None
    description: str | None = None


class TextConfig(Part):
    format: Format | None = None
    verbosity: Level | None = None


class Effort(Part):
    effort: Level | None = None
    summary: Level | None = None


class ResponsesRequest(Part):
    """A request for a response."""

    input: str | list[InputItem]
    instructions: str | None = None
    tools: list[Tool] | None = None
    tool_choice: (
        Literal["none", "auto", "required"]
        | Annotated[Choice | Allowed, Field(discriminator="type")]
        | None
    ) = None
    parallel_tool_calls: bool | None = None
    temperature: Temperature | None = None
    top_p: Fraction | None = None
    reasoning: Effort | None = None
    text: TextConfig | None = None
    truncation: Literal["auto", "disabled"] | None = None
    prompt_cache_key: Word | None = None
    store: bool | None = None
    include: list[str] | None = None
    max_output_tokens: Limit = None
    previous_response_id: Annotated[None, refusal("send the whole conversation")] = None
    conversation: Annotated[None, refusal("send the whole conversation")] = None
    prompt: Annotated[None, refusal("stored prompts are not available here")] = None

    @property
    def output_limit(self) -> int | None:
        """Most tokens of the answer, or None if the request sets no limit."""
        return self.max_output_tokens
