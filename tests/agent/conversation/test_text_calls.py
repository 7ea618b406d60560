"""Calls that a model writes as text: the usual spellings, and what is not certain in them."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.conversation.protocols import NativeTools, TextTools
from agent.conversation.text_calls import TextCalls
from agent.models.protocol import ModelReply, Usage

TYPES: dict[str, dict[str, Any]] = {
    "path": {"type": "string"},
    "content": {"anyOf": [{"type": "string"}, {"type": "null"}]},
    "line": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
    "share": {"type": "number"},
    "all": {"type": "boolean"},
    "places": {"type": "array", "items": {"type": "string"}},
    "step": {"$ref": "#/$defs/Step"},
}
PARAMETERS = {"properties": TYPES, "$defs": {"Step": {"type": "object"}}}
COMMAND = {"properties": {"command": {"type": "string"}}}
SCHEMAS = [
    {"type": "function", "function": {"name": "write", "parameters": PARAMETERS}},
    {"type": "function", "function": {"name": "run_command", "parameters": COMMAND}},
]

LS = ("run_command", {"command": "ls"})
CALL = '{"name": "run_command", "arguments": {"command": "ls"}}'
AS_TOOL = '{"tool": "run_command", "arguments": {"command": "ls"}}'
FUNCTION = "<function=run_command>\n<parameter=command>\nls\n</parameter>\n</function>"

TAKEN = {
    "Hermes": f"<tool_call>\n{CALL}\n</tool_call>",
    "Llama": CALL,
    "Llama with its tag": f"<|python_tag|>{CALL.replace('arguments', 'parameters')}",
    "a fence of json": f"```json\n{CALL}\n```",
    "Mistral": f"[TOOL_CALLS] [{CALL}]",
    "after thoughts": f"<think>{CALL} or not?</think>\n{CALL}",
    "the text protocol": f"I list the files.\n\n{FUNCTION}",
    "the text protocol on one line": FUNCTION.replace("\n", ""),
    "Qwen's coder": f"<tool_call>\n{FUNCTION}\n</tool_call>",
    "the protocol of earlier experiments": f"```json\n{AS_TOOL}\n```",
    "a bare object": AS_TOOL,
    "a plain fence": f"```\n{AS_TOOL}\n```",
    "a fence of JSON": f"```JSON\n{AS_TOOL}\n```",
    "a fence of tool_call": f"Now:\n```tool_call\n{AS_TOOL}\n```",
    "an open fence": f"```json\n{AS_TOOL}",
    "an indented fence": f"  ```json\n  {AS_TOOL}\n  ```",
    "arguments in a string": json.dumps({"name": LS[0], "arguments": json.dumps(LS[1])}),
    "OpenAI's entry": f'{{"id": "1", "type": "function", "function": {CALL}}}',
    "after other code": f"It says\n```python\n{{}}\n[1]\n```\nso\n{CALL}",
}


@pytest.mark.parametrize("spelling", TAKEN)
@pytest.mark.parametrize("protocol", [NativeTools, TextTools])
def test_a_call_in_a_usual_spelling_is_taken(spelling: str, protocol: type[TextTools]) -> None:
    """Its result is text, and the reply goes back as it was."""
    turn = protocol(SCHEMAS).read(spoken(TAKEN[spelling]), set())
    assert [(call.name, call.arguments) for call in turn.calls] == [LS]
    assert turn.message == {"role": "assistant", "content": TAKEN[spelling]}
    [result] = protocol(SCHEMAS).results([(turn.calls[0], "README")])
    assert result == {"role": "user", "content": "Result of run_command:\nREADME"}


REFUSED = {
    "text between two calls": (f"```json\n{CALL}\n```\nand then\n```json\n{CALL}\n```", "follows"),
    "text after a call": (f"```json\n{CALL}\n``` done", "text follows a call"),
    "a comma too many": (f"```json\n{CALL[:-1]},}}\n```", "not JSON"),
    "single quotes": (CALL.replace('"', "'"), "not JSON"),
    "a call in a sentence": (f"I could use {CALL}", "start on a new line"),
    "an open object": (f"<tool_call>{CALL[:-1]}</tool_call>", "not JSON"),
    "an open list": (f"[\n{CALL}\n", "not JSON"),
    "another tool": (CALL.replace("run_command", "bash"), "no tool is named 'bash'"),
    "a definition": (f'{{"description": "x", {CALL[1:]}', "nothing else"),
    "two names": (f'{{"tool": "write", {CALL[1:]}', "nothing else"),
    "a list of arguments": (CALL.replace('{"command": "ls"}', '["ls"]'), "not a JSON object"),
    "a key twice": (CALL.replace('"ls"', '"ls", "command": "rm"'), "same key twice"),
    "a parameter twice": (FUNCTION.replace("</f", "<parameter=command>x</parameter></f"), "twice"),
    "an open function": (FUNCTION.removesuffix("</function>"), "not closed by </parameter> and"),
    "a number that is none": (
        "<function=write><parameter=line>first</parameter></function>",
        "`line` is not JSON",
    ),
    "a quotation": (f"```python\n{CALL}\n```\n", "start on a new line"),
}


@pytest.mark.parametrize("form", REFUSED)
def test_a_call_that_is_not_certain_is_refused(form: str) -> None:
    """The correction names what is wrong."""
    text, problem = REFUSED[form]
    for protocol in (NativeTools, TextTools):
        turn = protocol(SCHEMAS).read(spoken(text), set())
        assert (turn.calls, problem in turn.problem) == ([], True), turn.problem


def test_in_the_text_protocol_plain_text_may_follow() -> None:
    """A model without native tools was told to write calls, and does not quote one."""
    for call in (f"```json\n{CALL}\n```", f"<tool_call>{CALL}</tool_call>", FUNCTION):
        text = f"{call}  \nI wait for its result."
        assert len(TextTools(SCHEMAS).read(spoken(text), set()).calls) == 1
        for protocol in (NativeTools(SCHEMAS), TextTools(SCHEMAS, is_chat=True)):
            assert "text follows a call" in protocol.read(spoken(text), set()).problem
        with_another = f"{text}\n{CALL}"
        assert "text follows" in TextTools(SCHEMAS).read(spoken(with_another), set()).problem


def test_calls_have_the_order_of_the_text() -> None:
    """Several calls can follow each other, in several blocks or in one."""
    other = CALL.replace("ls", "pwd")
    text = f"Both:\n<tool_call>{CALL}</tool_call>\n```\n{other}\n{CALL}\n```\n{FUNCTION}"
    calls = TextCalls(SCHEMAS).read(text)
    assert [arguments["command"] for _, arguments in calls] == ["ls", "pwd", "ls", "ls"]


@pytest.mark.parametrize(
    ("text", "is_speech"),
    [
        ("It is done.", True),
        ('The settings:\n```json\n{"name": "x"}\n```\nare fine.', True),
        (f"I could use {CALL} for that.", False),
        (CALL, False),
        (" ", False),
    ],
)
def test_speech_has_nothing_like_a_call(text: str, is_speech: bool) -> None:
    """In a chat, only plain text goes to the person."""
    assert [kind(SCHEMAS).is_speech(spoken(text)) for kind in (NativeTools, TextTools)] == [
        is_speech
    ] * 2


def test_native_arguments_are_read_as_they_are_meant() -> None:
    """Raw line ends, objects and JSON in a string are sent back as strict JSON."""
    meant = {"command": "a\nb"}
    for written in ('{"command": "a\nb"}', meant, json.dumps(json.dumps(meant))):
        function = {"name": "run_command", "arguments": written}
        message = {"role": "assistant", "content": None, "tool_calls": [{"function": function}]}
        turn = NativeTools(SCHEMAS).read(ModelReply(message, Usage(), "none", "it"), set())
        assert turn.message is not None
        [entry] = turn.message["tool_calls"]
        assert turn.calls[0].arguments == json.loads(entry["function"]["arguments"]) == meant


def spoken(text: str) -> ModelReply:
    return ModelReply({"role": "assistant", "content": text}, Usage(), "none", "it", "stop")


FRAGMENTS = [
    *("<tool_call>", "</tool_call>", "[TOOL_CALLS]", "<|python_tag|>", "<think>", "</think>"),
    *("<function=write>", "</function>", "<parameter=path>", "<parameter=line>", "</parameter>"),
    *("```json\n", "```", "````", "\n", "  ", "{", "}", "[", "]", '"', "'", ",", "\\", "\ud800"),
    *(CALL, AS_TOOL, FUNCTION, '{"name": "write", "arguments": {"path": "', "1e999", "[" * 2000),
]
TEXTS = st.lists(st.sampled_from(FRAGMENTS) | st.text(max_size=3), max_size=12).map("".join)
VALUES = {
    "path": TEXTS,
    "content": TEXTS,
    "line": st.none() | st.integers(),
    "share": st.floats(allow_nan=False),
    "all": st.booleans(),
    "places": st.lists(TEXTS),
    "step": st.dictionaries(TEXTS, st.none() | TEXTS | st.integers()),
}


@given(st.fixed_dictionaries({}, optional=VALUES), TEXTS)
def test_every_value_comes_back(arguments: dict[str, Any], prose: str) -> None:
    """A value in a function is as it was written. One with a tag in it is written as JSON."""
    calls = [*as_json(arguments), *as_function(arguments)]
    for text in calls:
        assert TextCalls(SCHEMAS).read(text) == [("write", arguments)]
    assert TextCalls(SCHEMAS).read("\n".join(calls)) == [("write", arguments)] * len(calls)


def as_json(arguments: dict[str, Any]) -> list[str]:
    call = json.dumps({"name": "write", "arguments": arguments})
    raw = call.replace("\\n", "\n") if "\\\\n" not in call else call
    return [f"<tool_call>{call}</tool_call>", f"```json\n{raw}\n```", f"[TOOL_CALLS][{call}]"]


def as_function(arguments: dict[str, Any]) -> list[str]:
    written = {
        name: value if isinstance(value, str) else json.dumps(value)
        for name, value in arguments.items()
    }
    tags = ("<function=", "<parameter=", "</function>")
    if any(tag in value for value in written.values() for tag in tags):
        return []
    lines = [f"<parameter={name}>\n{value}\n</parameter>" for name, value in written.items()]
    return ["\n".join(["<function=write>", *lines, "</function>"])]


@given(TEXTS)
def test_no_text_is_an_error(text: str) -> None:
    """Whatever a model writes is calls, plain text, or refused with a reason."""
    for protocol in (NativeTools, TextTools):
        turn = protocol(SCHEMAS).read(spoken(text), set())
        assert turn.calls or turn.problem
        assert all(call.name in ("write", "run_command") for call in turn.calls)


@pytest.mark.parametrize("spelling", TAKEN)
def test_a_call_that_is_quoted_in_a_file_is_not_run(spelling: str) -> None:
    """A file with a call in it is written or refused, whole or cut off anywhere."""
    content = f"Use\n{TAKEN[spelling]}"
    whole = json.dumps({"name": "write", "arguments": {"path": "a", "content": content}})
    raw = whole.replace("\\n", "\n")
    late = json.dumps({"arguments": {"content": content}, "name": "write"}).replace("\\n", "\n")
    value = f"<parameter=path>\na\n</parameter>\n<parameter=content>\n{content}\n</parameter>"
    for text in (
        f"<tool_call>\n{whole}\n</tool_call>",
        f"```json\n{raw}\n```",
        f"```json\n{raw.replace(content, json.dumps(content)[1:-1])}\n```",
        late,
        raw.replace('"name": "write"', "'name': 'write'"),
        f"````python\n{content}\n````",
        f"<function=write>\n{value}\n</function>",
    ):
        for end in range(len(text) + 1):
            for protocol in (NativeTools(SCHEMAS), TextTools(SCHEMAS)):
                calls = protocol.read(spoken(text[:end]), set()).calls
                assert all(call.name == "write" for call in calls), text[:end]
