"""OpenAI's chat completions, as programs and LiteLLM speak them."""

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from agent.models.requests.parts import (
    Attachment,
    ContentUrl,
    Fraction,
    Json,
    Level,
    Limit,
    MarkedPart,
    Part,
    Penalty,
    Picture,
    Reasoning,
    RedactedThinking,
    Seed,
    Temperature,
    Thinking,
    ThinkingBlock,
    Word,
    check_one,
    refusal,
)


class ChatText(MarkedPart):
    type: Literal["text"]
    text: str


class ImageUrl(Picture):
    CONTENT = ("url",)

    url: ContentUrl
    detail: Level | None = None
    format: Word | None = None


class ChatImage(MarkedPart):
    type: Literal["image_url"]
    image_url: Annotated[
        ImageUrl, BeforeValidator(lambda value: {"url": value} if isinstance(value, str) else value)
    ]


class FileContent(Attachment):
    CONTENT = ("file_data",)

    file_data: ContentUrl
    filename: Word | None = None
    format: Word | None = None


class ChatFile(MarkedPart):
    type: Literal["file"]
    file: FileContent


class ChatRefusal(Part):
    type: Literal["refusal"]
    refusal: str


Content = (
    str
    | list[Annotated[ChatText | ChatImage | ChatFile | ChatRefusal, Field(discriminator="type")]]
    | None
)


class Signatures(Part):
    """Signatures with which Gemini's models continue from their own thoughts."""

    thought_signature: str | None = None
    thought_signatures: list[str] | None = None


class Google(Part):
    google: Signatures | None = None


class ChatFunction(Part):
    name: Word
    arguments: str = ""
    provider_specific_fields: Signatures | None = None


class Custom(Part):
    name: Word
    input: str = ""


class ToolCall(MarkedPart):
    id: Word | None = None
    type: Literal["function", "custom"] | None = None
    function: ChatFunction | None = None
    custom: Custom | None = None
    provider_specific_fields: Signatures | None = None
    extra_content: Google | None = None


class ReasoningDetail(Part):
    """A thought in an earlier answer of OpenRouter."""

    type: Word
    id: Word | None = None
    format: Word | None = None
    index: int | None = None
    text: str | None = None
    summary: str | None = None
    data: str | None = None
    signature: str | None = None


class Instruction(MarkedPart):
    role: Literal["system", "developer", "user"]
    content: Content
    name: Word | None = None


class ChatAnswer(MarkedPart):
    role: Literal["assistant"]
    content: Content = None
    name: Word | None = None
    refusal: str | None = None
    tool_calls: list[ToolCall] | None = None
    reasoning: str | None = None
    reasoning_content: str | None = None
    reasoning_details: list[ReasoningDetail] | None = None
    reasoning_items: list[Reasoning] | None = None
    thinking_blocks: (
        list[Annotated[ThinkingBlock | RedactedThinking, Field(discriminator="type")]] | None
    ) = None
    provider_specific_fields: Signatures | None = None


class ChatToolResult(MarkedPart):
    role: Literal["tool"]
    content: Content
    tool_call_id: Word
    name: Word | None = None


Message = Annotated[Instruction | ChatAnswer | ChatToolResult, Field(discriminator="role")]


class DeclaredFunction(Part):
    name: Word
    description: str | None = None
    parameters: Json | None = None
    strict: bool | None = None


class ChatFunctionTool(MarkedPart):
    type: Literal["function"]
    function: DeclaredFunction


class CustomDeclared(Part):
    name: Word
    description: str | None = None
    format: Json | None = None


class ChatCustomTool(Part):
    type: Literal["custom"]
    custom: CustomDeclared


class ToolName(Part):
    name: Word


class ChatToolChoice(Part):
    type: Literal["function", "custom"]
    function: ToolName | None = None
    custom: ToolName | None = None


class Schema(Part):
    name: Word
    schema_: Json | None = Field(default=None, alias="schema")
    strict: bool | None = None
    description: str | None = None


class ChatFormat(Part):
    type: Literal["text", "json_object", "json_schema"]
    json_schema: Schema | None = None


class ChatRequest(Part):
    """A request for a chat completion."""

    messages: list[Message]
    tools: (
        list[Annotated[ChatFunctionTool | ChatCustomTool, Field(discriminator="type")]] | None
    ) = None
    tool_choice: Literal["none", "auto", "required"] | ChatToolChoice | None = None
    parallel_tool_calls: bool | None = None
    temperature: Temperature | None = None
    top_p: Fraction | None = None
    top_k: Annotated[int, Field(ge=0)] | None = None
    seed: Seed | None = None
    stop: str | list[str] | None = None
    presence_penalty: Penalty | None = None
    frequency_penalty: Penalty | None = None
    reasoning_effort: Level | None = None
    thinking: Thinking | None = None
    verbosity: Level | None = None
    response_format: ChatFormat | None = None
    prompt_cache_key: Word | None = None
    max_completion_tokens: Limit = None
    max_tokens: Limit = None
    n: Annotated[None, BeforeValidator(check_one)] = None
    functions: Annotated[None, refusal("declare them as `tools`")] = None
    audio: Annotated[None, refusal("answers are texts here")] = None

    @property
    def output_limit(self) -> int | None:
        """Most tokens of the answer, or None if the request sets no limit."""
        limits = (self.max_completion_tokens, self.max_tokens)
        return min((limit for limit in limits if limit is not None), default=None)
