"""OpenAI's responses."""

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

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


class ResponseText(Part):
    type: Literal["input_text", "output_text", "text"]
    text: str
    annotations: list[Json] | None = None


class ResponseImage(Picture):
    CONTENT = ("image_url",)

    type: Literal["input_image"]
    image_url: ContentUrl
    detail: Level | None = None


class ResponseFile(Attachment):
    CONTENT = ("file_data",)

    type: Literal["input_file"]
    file_data: ContentUrl
    filename: Word | None = None


class ResponseRefusal(Part):
    type: Literal["refusal"]
    refusal: str


Content = (
    str
    | list[
        Annotated[
            ResponseText | ResponseImage | ResponseFile | ResponseRefusal,
            Field(discriminator="type"),
        ]
    ]
)


class ResponseItem(Part):
    id: Word | None = None
    status: Word | None = None


class ResponseMessage(ResponseItem):
    type: Literal["message"]
    role: Literal["system", "developer", "user", "assistant"]
    content: Content
    phase: Word | None = None


class FunctionCall(ResponseItem):
    type: Literal["function_call"]
    call_id: Word
    name: Word
    namespace: Word | None = None
    arguments: str


class ToolOutput(ResponseItem):
    type: Literal["function_call_output", "custom_tool_call_output"]
    call_id: Word
    output: Content


class CustomCall(ResponseItem):
    type: Literal["custom_tool_call"]
    call_id: Word
    name: Word
    namespace: Word | None = None
    input: str


class LocalShellCall(ResponseItem):
    type: Literal["local_shell_call"]
    call_id: Word | None = None
    action: Json


class LocalShellOutput(ResponseItem):
    type: Literal["local_shell_call_output"]
    call_id: Word | None = None
    output: str


class ShellCall(ResponseItem):
    type: Literal["shell_call"]
    call_id: Word
    action: Json


class ShellOutput(ResponseItem):
    type: Literal["shell_call_output"]
    call_id: Word
    output: list[Json]
    max_output_length: int | None = None


class PatchCall(ResponseItem):
    type: Literal["apply_patch_call"]
    call_id: Word
    operation: Json


class PatchOutput(ResponseItem):
    type: Literal["apply_patch_call_output"]
    call_id: Word
    output: str | None = None


def _add_type(item: Any) -> Any:
    is_message = isinstance(item, dict) and item.get("type") is None and "role" in item
    return {**item, "type": "message"} if is_message else item


InputItem = Annotated[
    Annotated[
        ResponseMessage
        | FunctionCall
        | ToolOutput
        | CustomCall
        | LocalShellCall
        | LocalShellOutput
        | ShellCall
        | ShellOutput
        | PatchCall
        | PatchOutput
        | Reasoning,
        Field(discriminator="type"),
    ],
    BeforeValidator(_add_type),
]


class ResponseFunctionTool(Part):
    type: Literal["function"]
    name: Word
    description: str | None = None
    parameters: Json | None = None
    strict: bool | None = None


class ResponseCustomTool(Part):
    type: Literal["custom"]
    name: Word
    description: str | None = None
    format: Json | None = None


class ToolNamespace(Part):
    """Several tools of the program under one name."""

    type: Literal["namespace"]
    name: Word
    description: str | None = None
    tools: list[Annotated[ResponseFunctionTool | ResponseCustomTool, Field(discriminator="type")]]


class LocalShell(Part):
    type: Literal["local_shell"]


class ShellPlace(Part):
    type: Literal["local"]


class ShellTool(Part):
    """OpenAI's shell, where the program runs its commands."""

    type: Literal["shell"]
    environment: ShellPlace


class ApplyPatchTool(Part):
    type: Literal["apply_patch"]


Tool = Annotated[
    ResponseFunctionTool
    | ResponseCustomTool
    | ToolNamespace
    | LocalShell
    | ShellTool
    | ApplyPatchTool,
    Field(discriminator="type"),
]


class ResponseToolChoice(Part):
    type: Literal["function", "custom"]
    name: Word


class Allowed(Part):
    type: Literal["allowed_tools"]
    mode: Literal["auto", "required"]
    tools: list[ResponseToolChoice]


class ResponseTextFormat(Part):
    type: Literal["text", "json_object", "json_schema"]
    name: Word | None = None
    schema_: Json | None = Field(default=None, alias="schema")
    strict: bool | None = None
    description: str | None = None


class TextConfig(Part):
    format: ResponseTextFormat | None = None
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
        | Annotated[ResponseToolChoice | Allowed, Field(discriminator="type")]
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
