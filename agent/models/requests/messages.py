"""Anthropic's messages."""

from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag

from agent.models.requests.parts import (
    Attachment,
    Base64,
    CacheMark,
    Fraction,
    Json,
    Level,
    Limit,
    MarkedPart,
    MediaType,
    Part,
    Picture,
    RedactedThinking,
    RemoteUrl,
    Thinking,
    ThinkingBlock,
    Word,
    refusal,
)


class TextBlock(MarkedPart):
    type: Literal["text"]
    text: str


class Bytes(Attachment):
    CONTENT = ("data",)

    type: Literal["base64"]
    media_type: MediaType
    data: Base64


class Remote(Attachment):
    CONTENT = ("url",)

    type: Literal["url"]
    url: RemoteUrl


class ImageBlock(Picture):
    CONTENT = ("source",)

    type: Literal["image"]
    source: Annotated[Bytes | Remote, Field(discriminator="type")]
    cache_control: CacheMark | None = None


class PlainText(Part):
    type: Literal["text"]
    media_type: MediaType
    data: str


class Pieces(Part):
    type: Literal["content"]
    content: str | list[Annotated[TextBlock | ImageBlock, Field(discriminator="type")]]


class CitationsSwitch(Part):
    enabled: bool


class Document(MarkedPart):
    type: Literal["document"]
    source: Annotated[Bytes | Remote | PlainText | Pieces, Field(discriminator="type")]
    title: str | None = None
    context: str | None = None
    citations: CitationsSwitch | None = None


class SearchResult(MarkedPart):
    type: Literal["search_result"]
    source: str
    title: str
    content: list[TextBlock]
    citations: CitationsSwitch | None = None


class ToolUseBlock(MarkedPart):
    type: Literal["tool_use"]
    id: Word
    name: Word
    input: Json


Shown = Annotated[TextBlock | ImageBlock | Document | SearchResult, Field(discriminator="type")]


class ToolResultBlock(MarkedPart):
    type: Literal["tool_result"]
    tool_use_id: Word
    content: str | list[Shown] | None = None
    is_error: bool | None = None


Block = Annotated[
    TextBlock
    | ImageBlock
    | Document
    | SearchResult
    | ToolUseBlock
    | ToolResultBlock
    | ThinkingBlock
    | RedactedThinking,
    Field(discriminator="type"),
]


class MessageParam(Part):
    role: Literal["user", "assistant", "system"]
    content: str | list[Block]


class OwnTool(MarkedPart):
    """A tool of the program, with the schema of its arguments."""

    type: Literal["custom"] | None = None
    name: Word
    description: str | None = None
    input_schema: Json
    input_examples: list[Json] | None = None
    strict: bool | None = None
    eager_input_streaming: bool | None = None


OWN_TOOLS = r"^(bash|text_editor|memory)_[0-9]{8}$"
"""Types of tools that Anthropic describes and the program runs."""


class KnownTool(MarkedPart):
    """A tool that Anthropic describes and the program runs."""

    type: Annotated[str, Field(pattern=OWN_TOOLS)]
    name: Word
    max_characters: Annotated[int, Field(ge=1)] | None = None


def _kind_of_tool(tool: Any) -> str:
    kind = tool.get("type") if isinstance(tool, dict) else getattr(tool, "type", None)
    return "own" if kind in (None, "custom") else "known"


Tool = Annotated[
    Annotated[OwnTool, Tag("own")] | Annotated[KnownTool, Tag("known")],
    Discriminator(_kind_of_tool),
]


class MessagesToolChoice(Part):
    type: Literal["auto", "any", "tool", "none"]
    name: Word | None = None
    disable_parallel_tool_use: bool | None = None


class MessagesFormat(Part):
    type: Literal["json_schema"]
    schema_: Json = Field(alias="schema")


class OutputConfig(Part):
    effort: Level | None = None
    format: MessagesFormat | None = None


class Clearing(Part):
    """An edit that removes old parts of the conversation before the model reads it."""

    type: Annotated[str, Field(pattern=r"^clear_(tool_uses|thinking)_[0-9]{8}$")]
    trigger: Json | None = None
    keep: Json | Literal["all"] | None = None
    clear_at_least: Json | None = None
    clear_tool_inputs: bool | list[Word] | None = None
    exclude_tools: list[Word] | None = None


class ContextManagement(Part):
    edits: list[Clearing]


class MessagesRequest(Part):
    """A request for a message."""

    messages: list[MessageParam]
    system: str | list[TextBlock] | None = None
    tools: list[Tool] | None = None
    tool_choice: MessagesToolChoice | None = None
    temperature: Fraction | None = None
    top_p: Fraction | None = None
    top_k: Annotated[int, Field(ge=0)] | None = None
    stop_sequences: list[str] | None = None
    thinking: Thinking | None = None
    output_config: OutputConfig | None = None
    output_format: MessagesFormat | None = None
    context_management: ContextManagement | None = None
    cache_control: CacheMark | None = None
    max_tokens: Limit = None
    container: Annotated[None, refusal("the provider's containers are not available here")] = None

    @property
    def output_limit(self) -> int | None:
        """Most tokens of the answer, or None if the request sets no limit."""
        return self.max_tokens
