"""Validation of programs' requests: declared fields pass, everything else is dropped or refused."""

import json
from typing import Any

import pytest

from agent.errors import RequestRefused
from agent.models.requests import Dialect, ProviderTools, parse

HELLO = [{"role": "user", "content": "Hello."}]
IMAGE = "data:image/png;base64,iVBORw0KGgo="
LEAST: dict[Dialect, dict[str, Any]] = {
    "chat": {"messages": HELLO},
    "messages": {"messages": HELLO, "max_tokens": 100},
    "responses": {"input": "Hello."},
    "gemini": {"contents": [{"role": "user", "parts": [{"text": "Hello."}]}]},
}
OWN_TOOLS: dict[Dialect, dict[str, Any]] = {
    "chat": {"type": "function", "function": {"name": "f"}},
    "messages": {"name": "f", "input_schema": {"type": "object"}},
    "responses": {"type": "function", "name": "f"},
    "gemini": {"functionDeclarations": [{"name": "f"}]},
}
ELSEWHERE: dict[str, Any] = {
    "api_base": "http://elsewhere/v1",
    "base_url": "http://elsewhere/v1",
    "api_key": "k",
    "api_version": "1",
    "custom_llm_provider": "openai",
    "deployment_id": "d",
    "extra_body": {"max_tokens": 99_999},
    "extra_headers": {"x": "y"},
    "headers": {"x": "y"},
    "fallbacks": [{"model": "openai/gpt-5-pro"}],
    "context_window_fallback_dict": {"a": "b"},
    "models": ["a", "b"],
    "route": "fallback",
    "provider": {"order": ["x"]},
    "transforms": ["middle-out"],
    "mock_response": "forged",
    "mock_tool_calls": [],
    "input_cost_per_token": 0,
    "output_cost_per_token": 0,
    "num_retries": 99,
    "timeout": 1e9,
    "service_tier": "priority",
    "speed": "fast",
    "inference_geo": "us",
    "metadata": {"a": "b"},
    "user": "u",
    "proxy_server_request": {},
    "litellm_params": {},
    "prediction": {"type": "content", "content": "x"},
    "best_of": 50,
    "store_everything": True,
}


@pytest.mark.parametrize("dialect", LEAST)
def test_a_field_without_a_name_here_is_dropped_and_counted(dialect: Dialect) -> None:
    """No address, key, header, model, price or option of a provider is among what is sent."""
    asked = parse(dialect, {**LEAST[dialect], **ELSEWHERE}, {"x-other": "1"})
    assert asked.body == LEAST[dialect]
    assert set(asked.dropped) == ELSEWHERE.keys()
    assert asked.headers == {}


@pytest.mark.parametrize("dialect", LEAST)
@pytest.mark.parametrize(
    "tool",
    [
        {"type": "web_search_20250305", "name": "web_search"},
        {"type": "web_search_preview"},
        {"type": "code_execution_20250825", "name": "code"},
        {"type": "code_interpreter", "container": {"type": "auto"}},
        {"type": "file_search", "vector_store_ids": ["v"]},
        {"type": "image_generation"},
        {"type": "mcp", "server_url": "http://elsewhere"},
        {"type": "computer_use_preview"},
        {"type": "shell", "environment": {"type": "container_auto"}},
        {"type": "shell"},
        {"type": "a_tool_of_next_year"},
        {"googleSearch": {}},
        {"urlContext": {}},
        {"code_execution": {}},
        {},
    ],
    ids=lambda tool: str(tool)[:30],
)
def test_a_tool_that_the_provider_runs_is_left_out(dialect: Dialect, tool: dict[str, Any]) -> None:
    """Only tools that the program runs are declared, so the tools of all vendors are left out."""
    with pytest.raises(ProviderTools):
        parse(dialect, {**LEAST[dialect], "tools": [tool]}, {})
    whole = {**LEAST[dialect], "tools": [OWN_TOOLS[dialect]]}
    asked = parse(dialect, {**whole, "tools": [tool, *whole["tools"]]}, {})
    assert asked.body == whole
    assert asked.dropped == ()
    assert asked.provider_tools


@pytest.mark.parametrize(
    ("dialect", "choice"),
    [
        ("chat", {"type": "function", "function": {"name": "web_search"}}),
        ("messages", {"type": "tool", "name": "web_search"}),
        ("responses", {"type": "web_search_preview"}),
    ],
)
def test_a_request_that_must_call_a_tool_of_the_provider_is_refused(
    dialect: Dialect, choice: dict[str, Any]
) -> None:
    """Without the tool it would be another request."""
    tools = [OWN_TOOLS[dialect], {"type": "web_search_preview", "name": "web_search"}]
    with pytest.raises(ProviderTools, match="web_search_preview"):
        parse(dialect, {**LEAST[dialect], "tools": tools, "tool_choice": choice}, {})


@pytest.mark.parametrize("options", [{}, {"search_context_size": "low"}, [{"name": "x"}], "on"])
@pytest.mark.parametrize("field", ["web_search_options", "mcp_servers", "plugins"])
def test_a_tool_outside_the_list_of_tools_is_left_out(field: str, options: Any) -> None:
    """An empty object is as good a search as a full one."""
    asked = parse("chat", {**LEAST["chat"], field: options}, {})
    assert asked.body == LEAST["chat"]
    assert len(asked.provider_tools) == 1


def config(**fields: Any) -> dict[str, Any]:
    return {"generationConfig": fields}


def part(content: dict[str, Any]) -> dict[str, Any]:
    """Return the contents of Google's dialect with one part."""
    return {"contents": [{"role": "user", "parts": [content]}]}


@pytest.mark.parametrize(
    ("dialect", "fields", "problem"),
    [
        ("chat", {"n": 128}, "n: a request has one answer here"),
        ("chat", {"n": "2"}, "n: a request has one answer here"),
        ("chat", {"functions": [{"name": "f"}]}, "functions: declare them as `tools`"),
        ("chat", {"audio": {"voice": "x"}}, "audio: answers are texts here"),
        ("chat", {"messages": "Hello."}, "messages: Input should be a valid list"),
        ("chat", {"messages": [{"role": "robot"}]}, "messages.0: 'robot' is not available here"),
        ("chat", {"temperature": 9}, "temperature: Input should be less than or equal to 2"),
        ("messages", {"container": "c"}, "container: the provider's containers"),
        ("responses", {"previous_response_id": "r"}, "previous_response_id: send the whole"),
        ("responses", {"conversation": "c"}, "conversation: send the whole"),
        ("responses", {"prompt": {"id": "p"}}, "prompt: stored prompts"),
        ("gemini", {"cachedContent": "c"}, "cachedContent: send the whole"),
        ("gemini", {"cached_content": "c"}, "cached_content: send the whole"),
        ("gemini", {"contents": []} | config(candidateCount=2), "generationConfig.candidateCount"),
        ("gemini", config(candidate_count="2"), "generationConfig.candidate_count: a request has"),
        ("gemini", config(responseModalities=["AUDIO"]), "generationConfig.responseModalities"),
        ("gemini", config(speechConfig={"voice": "x"}), "generationConfig.speechConfig: answers"),
        ("gemini", part({}), "contents.0.parts.0: a part has one of text, inlineData"),
        ("gemini", part({"videoClip": 1}), "contents.0.parts.0: a part has one of text"),
        ("gemini", part({"text": "a", "functionCall": {"name": "f"}}), "contents.0.parts.0: a"),
        ("gemini", part({"executableCode": {"code": "1"}}), "contents.0.parts.0.executableCode"),
        ("gemini", {"contents": [{"role": "robot", "parts": []}]}, "contents.0.role: Input"),
        (
            "responses",
            {"input": [{"type": "item_reference", "id": "i"}]},
            "input.0: 'item_reference' is not available here",
        ),
    ],
)
def test_what_would_change_the_answer_is_refused_in_one_line(
    dialect: Dialect, fields: dict[str, Any], problem: str
) -> None:
    """Dropping it would give the program another answer than the one it asked for."""
    with pytest.raises(RequestRefused) as caught:
        parse(dialect, {**LEAST[dialect], **fields}, {})
    assert str(caught.value).startswith(problem)
    assert "\n" not in str(caught.value)


def test_both_spellings_of_google_are_one_request() -> None:
    """What is sent has one spelling. Keys of the program's own stay as they are."""
    schema = {"type": "object", "properties": {"file_path": {"type": "string"}}}
    declared = {"name": "f", "parametersJsonSchema": schema}
    result = {"name": "f", "response": {"exit_code": 0}}
    camel = {
        **LEAST["gemini"],
        "systemInstruction": {"parts": [{"text": "Be brief."}]},
        "tools": [{"functionDeclarations": [declared]}],
        "toolConfig": {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["f"]}},
        **config(maxOutputTokens=9, thinkingConfig={"thinkingBudget": -1}, topK=64),
        **part({"functionResponse": result, "thoughtSignature": "c2ln"}),
    }
    snake = {
        **LEAST["gemini"],
        "system_instruction": {"parts": [{"text": "Be brief."}]},
        "tools": [
            {
                "function_declarations": [{"name": "f", "parameters_json_schema": schema}],
                "google_search": {},
            }
        ],
        "tool_config": {
            "function_calling_config": {"mode": "ANY", "allowed_function_names": ["f"]}
        },
        "generation_config": {
            "max_output_tokens": 9,
            "thinking_config": {"thinking_budget": -1},
            "top_k": 64,
        },
        **part({"function_response": result, "thought_signature": "c2ln"}),
    }
    asked, other = parse("gemini", camel, {}), parse("gemini", snake, {})
    assert asked.body == other.body == camel
    assert asked.output_limit == other.output_limit == 9
    assert asked.dropped == other.dropped == ()
    assert (asked.provider_tools, other.provider_tools) == ((), ("google_search",))


def chat_part(part: dict[str, Any]) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": [part]}]}


def fetches(url: str) -> list[tuple[Dialect, dict[str, Any]]]:
    """Return requests in which a provider would fetch a URL."""
    source = {"type": "url", "url": url}
    result = {
        "type": "tool_result",
        "tool_use_id": "t",
        "content": [{"type": "image", "source": source}],
    }
    image = {"type": "input_image", "image_url": url}
    return [
        ("chat", chat_part({"type": "image_url", "image_url": {"url": url}})),
        ("chat", chat_part({"type": "image_url", "image_url": url})),
        ("chat", chat_part({"type": "file", "file": {"file_data": url}})),
        ("messages", {**chat_part({"type": "image", "source": source}), "max_tokens": 1}),
        ("messages", {**chat_part({"type": "document", "source": source}), "max_tokens": 1}),
        ("messages", {**chat_part(result), "max_tokens": 1}),
        ("responses", {"input": [{"role": "user", "content": [image]}]}),
        (
            "responses",
            {"input": [{"type": "function_call_output", "call_id": "c", "output": [image]}]},
        ),
        ("gemini", part({"fileData": {"fileUri": url}})),
        ("gemini", part({"file_data": {"file_uri": url, "mime_type": "image/png"}})),
    ]


STORED: list[tuple[Dialect, dict[str, Any]]] = [
    ("chat", chat_part({"type": "file", "file": {"file_id": "f"}})),
    (
        "messages",
        chat_part({"type": "image", "source": {"type": "file", "file_id": "f"}}),
    ),
    ("messages", chat_part({"type": "container_upload", "file_id": "f"})),
    (
        "responses",
        {"input": [{"role": "user", "content": [{"type": "input_file", "file_id": "f"}]}]},
    ),
    (
        "responses",
        {"input": [{"role": "user", "content": [{"type": "input_file", "file_url": "http://a"}]}]},
    ),
    ("chat", chat_part({"type": "input_audio", "input_audio": {"data": "", "format": "wav"}})),
    ("chat", chat_part({"type": "video_url", "video_url": {"url": IMAGE}})),
    ("gemini", part({"fileData": {"fileUri": "gs://bucket/a.png"}})),
    ("gemini", part({"fileData": {"fileUri": "https://generativelanguage.googleapis.com/v1/f"}})),
    ("gemini", part({"inlineData": {"mimeType": "audio/wav", "data": "AAAA"}})),
    ("gemini", part({"inlineData": {"mimeType": "video/mp4", "data": "AAAA"}})),
]


@pytest.mark.parametrize(("dialect", "body"), [*fetches("http://169.254.169.254/x"), *STORED])
def test_content_that_is_elsewhere_is_refused(dialect: Dialect, body: dict[str, Any]) -> None:
    """The provider would fetch it, past the network that the program has not."""
    with pytest.raises(RequestRefused):
        parse(dialect, {**LEAST[dialect], **body}, {})


@pytest.mark.parametrize("url", ["https://example.com/a.png", "http://example.com/a.png"])
def test_an_experiment_with_network_may_name_urls(url: str) -> None:
    """Its programs can fetch by themselves, so the provider may. Other schemes are refused."""
    for dialect, body in fetches(url):
        asked = parse(dialect, {**LEAST[dialect], **body}, {}, may_fetch=True)
        assert asked.size.images + asked.size.files == 1
    for dialect, body in fetches("file:///etc/passwd"):
        with pytest.raises(RequestRefused):
            parse(dialect, {**LEAST[dialect], **body}, {}, may_fetch=True)


@pytest.mark.parametrize("limit", [0, -1, "99999", 1.5, True, 10**12, None, [1], {}])
@pytest.mark.parametrize(
    ("dialect", "name"),
    [
        ("chat", "max_tokens"),
        ("messages", "max_tokens"),
        ("responses", "max_output_tokens"),
        ("gemini", "maxOutputTokens"),
    ],
)
def test_a_limit_that_is_none_counts_as_absent(dialect: Dialect, name: str, limit: Any) -> None:
    """The request then gets the limit of the model."""
    body = {name: value for name, value in LEAST[dialect].items() if name != "max_tokens"}
    fields = config(maxOutputTokens=limit) if dialect == "gemini" else {name: limit}
    assert parse(dialect, {**body, **fields}, {}).output_limit is None


def test_a_limit_of_another_dialect_is_none() -> None:
    """A server that does not know it would write as much as it likes."""
    body = {"messages": HELLO, "max_completion_tokens": 1, "max_tokens": 60_000}
    assert parse("messages", body, {}).output_limit == 60_000
    asked = parse("responses", {"input": "Hello.", "max_tokens": 1}, {})
    assert (asked.output_limit, asked.dropped) == (None, ("max_tokens",))


def test_images_count_as_more_than_their_bytes() -> None:
    """A tiny image can be billed as tens of thousands of tokens."""
    parts = [{"type": "image_url", "image_url": {"url": IMAGE + 9_000 * "A"}}] * 3
    asked = parse("chat", {"messages": [{"role": "user", "content": parts}]}, {})
    assert asked.size.images == 3
    assert asked.size.image_tokens >= 3 * 37_000
    assert asked.size.ascii_bytes < 1_000


LOOKALIKE = {"type": "image", "image_url": "x" * 9_000, "source": {"data": "y" * 9_000}}


@pytest.mark.parametrize(
    ("dialect", "body"),
    [
        (
            "chat",
            {"tools": [{"type": "function", "function": {"name": "f", "parameters": LOOKALIKE}}]},
        ),
        ("messages", {"tools": [{"name": "f", "input_schema": LOOKALIKE}]}),
        (
            "messages",
            {
                "messages": [
                    *HELLO,
                    {
                        "role": "assistant",
                        "content": [
                            {"type": "tool_use", "id": "1", "name": "f", "input": LOOKALIKE}
                        ],
                    },
                ]
            },
        ),
        ("responses", {"tools": [{"type": "function", "name": "f", "parameters": LOOKALIKE}]}),
        ("responses", {"input": [{"type": "shell_call", "call_id": "1", "action": LOOKALIKE}]}),
        ("gemini", part({"functionCall": {"name": "f", "args": LOOKALIKE}})),
    ],
)
def test_what_only_looks_like_an_image_counts_as_text(
    dialect: Dialect, body: dict[str, Any]
) -> None:
    """Else a program could send any text for the reservation of one image."""
    asked = parse(dialect, {**LEAST[dialect], **body}, {})
    assert asked.size.images == 0
    assert asked.size.ascii_bytes > 18_000


def test_the_title_of_a_document_is_text() -> None:
    """It is counted, and a lone surrogate in it becomes a question mark."""
    source = {"type": "base64", "media_type": "application/pdf", "data": "AAAA"}
    document = {"type": "document", "title": "a\ud800" * 5_000, "source": source}
    body = {**LEAST["messages"], "messages": [{"role": "user", "content": [document]}]}
    asked = parse("messages", body, {})
    assert asked.size.files == 1
    assert asked.size.ascii_bytes > 10_000
    json.dumps(asked.body, ensure_ascii=False).encode()


@pytest.mark.parametrize("kind", ["object", "image"])
def test_a_number_that_is_not_finite_is_refused(kind: str) -> None:
    """JSON has none, so no provider takes it."""
    schema = {"type": kind, "maximum": float("inf")}
    tool = {"type": "function", "function": {"name": "f", "parameters": schema}}
    with pytest.raises(RequestRefused, match="not finite"):
        parse("chat", {**LEAST["chat"], "tools": [tool]}, {})


def test_only_names_of_known_features_pass_as_headers() -> None:
    """Others could enable features that cost more, or that the provider runs."""
    given = "claude-code-20250219, mcp-client-2025-04-04,effort-2025-11-24,x\r\ny: z"
    asked = parse("messages", LEAST["messages"], {"anthropic-beta": given, "openai-beta": "x"})
    assert asked.headers == {"anthropic-beta": "claude-code-20250219,effort-2025-11-24"}


@pytest.mark.parametrize("dialect", LEAST)
def test_depth_and_odd_text_are_bounded(dialect: Dialect) -> None:
    """A deep body is refused, and a lone surrogate becomes a question mark."""
    deep: Any = {}
    for _ in range(10_000):
        deep = {"a": deep}
    with pytest.raises(RequestRefused, match="nested deeper than 100 levels"):
        parse(dialect, {**LEAST[dialect], "metadata": deep}, {})
    if dialect == "gemini":
        assert parse(dialect, part({"text": "a\ud800b"}), {}).body == part({"text": "a?b"})
        return
    talk = "input" if dialect == "responses" else "messages"
    odd = {**LEAST[dialect], talk: [{"role": "user", "content": "a\ud800b"}]}
    assert parse(dialect, odd, {}).body[talk][0]["content"] == "a?b"
