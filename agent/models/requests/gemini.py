"""Google's generateContent. Each name can be spelled in camelCase or in snake_case."""

import re
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, model_validator
from pydantic.alias_generators import to_camel

from agent.models.requests.parts import (
    MOST_TOKENS,
    Attachment,
    Base64,
    Fraction,
    Json,
    Limit,
    MediaType,
    Part,
    Penalty,
    Picture,
    RemoteUrl,
    Seed,
    Temperature,
    Word,
    check_one,
    refusal,
)

Name = Annotated[str, Field(max_length=100, pattern=r"^[A-Za-z0-9_]+$")]
"""A constant of Google."""

_CAMEL = ConfigDict(extra="ignore", frozen=True, alias_generator=to_camel, validate_by_name=True)
_STORED = re.compile(r"https?://[^/]*googleapis\.com[:/]", re.IGNORECASE)


class GeminiPart(Part):
    model_config = _CAMEL


class InlineImage(GeminiPart, Picture):
    CONTENT = ("data",)

    mime_type: Annotated[str, Field(pattern=r"^(?i:image/[a-z0-9.+-]{1,80})$")]
    data: Base64


class InlineFile(GeminiPart, Attachment):
    """A document. Sound and film have other prices, and no other dialect takes them."""

    CONTENT = ("data",)

    mime_type: Annotated[MediaType, Field(pattern=r"^(?i:application|text)/")]
    data: Base64


Blob = Annotated[InlineImage | InlineFile, Field(union_mode="left_to_right")]


def _check_not_stored(url: str) -> str:
    if _STORED.match(url):
        raise ValueError("files that are stored with the key are not available here")
    return url


class FileData(GeminiPart, Attachment):
    CONTENT = ("file_uri",)

    mime_type: MediaType | None = None
    file_uri: Annotated[RemoteUrl, AfterValidator(_check_not_stored)]


class GeminiCall(GeminiPart):
    id: Word | None = None
    name: Word
    args: Json | None = None


class ResultPart(GeminiPart):
    inline_data: Blob


class GeminiResult(GeminiPart):
    id: Word | None = None
    name: Word
    response: Json
    parts: list[ResultPart] | None = None


_KINDS = ("text", "inline_data", "file_data", "function_call", "function_response")
_OF_PROVIDER = Annotated[None, refusal("the provider's code execution is not available here")]


class ContentPart(GeminiPart):
    text: str | None = None
    thought: bool | None = None
    thought_signature: Base64 | None = None
    inline_data: Blob | None = None
    file_data: FileData | None = None
    function_call: GeminiCall | None = None
    function_response: GeminiResult | None = None
    executable_code: _OF_PROVIDER = None
    code_execution_result: _OF_PROVIDER = None

    @model_validator(mode="after")
    def _has_one_kind(self) -> "ContentPart":
        kinds = sum(getattr(self, name) is not None for name in _KINDS)
        if kinds > 1 or not (kinds or self.thought_signature):
            raise ValueError(f"a part has one of {', '.join(map(to_camel, _KINDS))}")
        return self


class GeminiContent(GeminiPart):
    role: Literal["user", "model", "function"] | None = None
    parts: list[ContentPart]


class InstructionText(GeminiPart):
    text: str


class SystemInstruction(GeminiPart):
    role: Word | None = None
    parts: list[InstructionText]


class FunctionDeclaration(GeminiPart):
    name: Word
    description: str | None = None
    parameters: Json | None = None
    parameters_json_schema: Json | None = None
    response: Json | None = None
    response_json_schema: Json | None = None


class GeminiTool(GeminiPart):
    function_declarations: list[FunctionDeclaration]


class CallingConfig(GeminiPart):
    mode: Literal["MODE_UNSPECIFIED", "AUTO", "ANY", "NONE", "VALIDATED"] | None = None
    allowed_function_names: list[Word] | None = None


class ToolConfig(GeminiPart):
    function_calling_config: CallingConfig | None = None


class ThinkingConfig(GeminiPart):
    include_thoughts: bool | None = None
    thinking_budget: Annotated[int, Field(ge=-1, le=MOST_TOKENS)] | None = None
    thinking_level: Name | None = None


def _check_modalities(value: Any) -> None:
    if value not in (None, [], ["TEXT"]):
        raise ValueError("answers are texts here")


class GenerationConfig(GeminiPart):
    temperature: Temperature | None = None
    top_p: Fraction | None = None
    top_k: Annotated[float, Field(ge=0, le=MOST_TOKENS)] | None = None
    max_output_tokens: Limit = None
    stop_sequences: list[str] | None = None
    seed: Seed | None = None
    presence_penalty: Penalty | None = None
    frequency_penalty: Penalty | None = None
    response_mime_type: Word | None = None
    response_schema: Json | None = None
    response_json_schema: Json | None = None
    thinking_config: ThinkingConfig | None = None
    candidate_count: Annotated[None, BeforeValidator(check_one)] = None
    response_modalities: Annotated[None, BeforeValidator(_check_modalities)] = None
    speech_config: Annotated[None, refusal("answers are texts here")] = None
    image_config: Annotated[None, refusal("answers are texts here")] = None


class SafetySetting(GeminiPart):
    category: Name
    threshold: Name


class GeminiRequest(GeminiPart):
    """A request for generated content."""

    contents: list[GeminiContent]
    system_instruction: SystemInstruction | None = None
    tools: list[GeminiTool] | None = None
    tool_config: ToolConfig | None = None
    generation_config: GenerationConfig | None = None
    safety_settings: list[SafetySetting] | None = None
    cached_content: Annotated[None, refusal("send the whole conversation")] = None

    @property
    def output_limit(self) -> int | None:
        """Most tokens of the answer, or None if the request sets no limit."""
        config = self.generation_config
        return config.max_output_tokens if config else None
