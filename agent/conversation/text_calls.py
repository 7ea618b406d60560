"""The calls of tools that a model writes as text, in the usual spellings.

A reply holds calls only where their meaning is certain: prose comes first, then whole calls of
offered tools, and nothing after them. Anything else that looks like a call is refused with a
reason. Nothing is repaired, since a quote or a comma that is missing could be part of source code.
"""

import json
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import chain, islice
from typing import Any

Schema = dict[str, Any]
"""An OpenAI function definition: name, description and the JSON schema of its arguments."""

NamedCall = tuple[str, dict[str, Any]]
"""The name of a tool and its arguments."""

MOST_NESTED = 100
"""Levels of lists and objects in the arguments of a call. JSON of thousands cannot be recorded."""

_TOO_DEEP = f"the arguments are nested more than {MOST_NESTED} levels deep"


class Malformed(Exception):
    """The reply does not have the required form. The message goes back to the model."""


def _take_unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    content = dict(pairs)
    if len(content) < len(pairs):
        raise Malformed("an object of the call has the same key twice")
    return content


# Models write line ends and tabs in strings as they are.
_JSON = json.JSONDecoder(strict=False, object_pairs_hook=_take_unique)


def json_object(source: Any) -> dict[str, Any]:
    """Return the arguments that a model wrote: an object, its JSON, or that JSON in a string.

    Raises:
        Malformed: it is not an object, has a key twice, or is too deep to be recorded.
    """
    content = source
    try:
        for _ in range(2):
            content = _JSON.decode(content) if isinstance(content, str) else content
    except ValueError as error:
        raise Malformed(f"the arguments are not JSON: {error}") from None
    except RecursionError:
        raise Malformed(_TOO_DEEP) from None
    if not isinstance(content, dict):
        raise Malformed("the arguments are not a JSON object")
    level: list[Any] = [content]
    for _ in range(MOST_NESTED):
        parts = [node.values() if isinstance(node, dict) else node for node in level]
        level = [part for part in chain(*parts) if isinstance(part, dict | list)]
        if not level:
            return content
    raise Malformed(_TOO_DEEP)


_ANY_BLOCK = re.compile(r"```\w*[ \t]*\n(.*?)```[ \t]*$", re.DOTALL | re.MULTILINE)


def objects_in(reply_text: str) -> list[dict[str, Any]]:
    """Return the JSON objects of a text: the whole text, and its fenced blocks."""
    objects = []
    for part in (reply_text, *_ANY_BLOCK.findall(reply_text)):
        with suppress(Malformed):
            objects.append(json_object(part))
    return objects


_THOUGHTS = re.compile(r"\s*<think>(?:.*?</think>|.*)", re.DOTALL)
_SPACE = re.compile(r"\s*")

_START = re.compile(
    r"^[ \t]*(?:(?P<fence>`{3,})(?P<language>[^\n]*)|(?P<json>[{[])(?!TOOL_CALLS))"
    r"|<tool_call>|\[TOOL_CALLS\]|<\|python_tag\|>|<function=",
    re.MULTILINE,
)
"""A place where a call can start."""

_MOST_PLACES = 1_000
"""Places that are tried, because each error of JSON counts the lines before it."""

_OPENING = re.compile(
    r"(?P<fence>`{3,})[ \t]*(?:(?i:json)|tool_calls?)?[ \t]*\n"
    r"|(?P<tag><tool_call>)|\[TOOL_CALLS\]|<\|python_tag\|>|(?=<function=|[{[])"
)
"""The opening of a block of calls, with the tags of Hermes, Mistral, Llama and OpenHands."""

_TAG = re.compile(
    r"<tool_call>\s*[{<\[]|\[TOOL_CALLS\]\s*\[|<\|python_tag\|>\s*\{|<function=[\w.-]+>"
)
_NAME = re.compile(r"[\"'](?:name|tool|function)[\"']\s*:")
_ARGUMENTS = re.compile(r"[\"'](?:arguments|parameters|args)[\"']\s*:")

_PLAIN_TEXT = re.compile(rf"[ \t]*\n(?!.*(?:{_TAG.pattern}|{_ARGUMENTS.pattern}|```))", re.DOTALL)

_FUNCTION = re.compile(r"<function=([^\s<>]+)>")
_FUNCTION_END = re.compile(r"\s*</function>")
_PARAMETER = re.compile(r"\s*<parameter=([^\s<>]+)>")
_PARAMETER_END = re.compile(r"</parameter>(?=\s*(?:<parameter=|</function>))")
_TAG_IN_VALUE = re.compile(r"<function=|<parameter=|</function>")

_NAME_KEYS, _ARGUMENT_KEYS = ("name", "tool", "function"), ("arguments", "parameters", "args")
_OTHER_KEYS = {"id", "type"}

_UNCERTAIN = "a call has to be whole, and to start on a new line after all other text"
_TEXT_AFTER = "text follows a call: write all text first, and then the calls with nothing between"


class TextCalls:
    """Reads calls of the tools with the given schemas."""

    def __init__(self, schemas: Sequence[Schema], *, text_may_follow: bool = False) -> None:
        """With `text_may_follow`, plain text can stand after the last call, if that is closed."""
        self._text_may_follow = text_may_follow
        functions = [schema["function"] for schema in schemas]
        self._parameters: dict[str, Schema] = {
            function["name"]: function["parameters"] for function in functions
        }

    def read(self, text: str, *, is_cut_off: bool = False) -> list[NamedCall]:
        """Return the calls of a reply, in order; none if it is plain text.

        A model can leave its last block open, unless its reply was cut off.

        Raises:
            Malformed: something looks like a call, but its meaning is not certain.
        """
        text = text.rstrip()
        thoughts = _THOUGHTS.match(text)
        begin = thoughts.end() if thoughts else 0
        parts = [match.start() for p in (_TAG, _ARGUMENTS) if (match := p.search(text, begin))]
        problem, fence, has_json = "", "", False
        for start in islice(_START.finditer(text, begin), _MOST_PLACES):
            if parts and min(parts) < start.start():
                break  # this place can be in the arguments of another call
            if not fence and not (start["json"] and has_json):
                try:
                    return self._read_blocks(text, start.start(), is_cut_off=is_cut_off)
                except Malformed as error:
                    problem = str(error)
            has_json = has_json or (bool(start["json"]) and not fence)
            if not fence:
                fence = start["fence"] or ""
            elif (start["fence"] or "").startswith(fence) and not start["language"].strip():
                fence = ""
        if _TAG.search(text, begin) or (_NAME.search(text, begin) and len(parts)):
            raise Malformed(problem or _UNCERTAIN)
        return []

    def _read_blocks(self, text: str, at: int, *, is_cut_off: bool) -> list[NamedCall]:
        """Return the calls from a place to the end of the text."""
        calls: list[NamedCall] = []
        end = at
        while (at := _skip_space(text, end)) < len(text):
            opening = _OPENING.match(text, at)
            if opening is None and calls:
                is_closed = text[end - 1] in "`>"
                if self._text_may_follow and is_closed and _PLAIN_TEXT.match(text, end):
                    return calls
                raise Malformed(_TEXT_AFTER)
            if opening is None:
                raise Malformed(_UNCERTAIN)
            block, end = self._read_block(text, opening.end())
            calls += block
            closing = opening["fence"] or ("</tool_call>" if opening["tag"] else "")
            at = _skip_space(text, end)
            if closing and text.startswith(closing, at):
                end = at + len(closing)
            elif closing and (at < len(text) or is_cut_off):
                raise Malformed(f"the call is not closed by {closing}")
        return calls

    def _read_block(self, text: str, at: int) -> tuple[list[NamedCall], int]:
        """Return the calls at a place with nothing between them, and the end of the last one."""
        calls: list[NamedCall] = []
        end = at
        while True:
            at = _skip_space(text, end)
            if text.startswith("<function=", at):
                call, end = self._read_function(text, at)
                calls.append(call)
            elif text.startswith(("{", "["), at):
                try:
                    value, end = _JSON.raw_decode(text, at)
                except ValueError as error:
                    raise Malformed(f"the call is not JSON: {error}") from None
                except RecursionError:
                    raise Malformed(_TOO_DEEP) from None
                calls += map(self._check, value if isinstance(value, list) else [value])
            elif calls:
                return calls, end
            else:
                raise Malformed(_UNCERTAIN)

    def _check(self, value: Any) -> NamedCall:
        """Return the call that a JSON value states."""
        fields = value if isinstance(value, dict) else {}
        if isinstance(fields.get("function"), dict) and fields.keys() - _OTHER_KEYS == {"function"}:
            fields = fields["function"]
        names = [fields[key] for key in _NAME_KEYS if key in fields]
        arguments = [fields[key] for key in _ARGUMENT_KEYS if key in fields]
        if len(names) != 1 or len(arguments) != 1 or len(fields.keys() - _OTHER_KEYS) != 2:
            raise Malformed('a call is an object with "name" and "arguments", and nothing else')
        return self._check_name(names[0]), json_object(arguments[0])

    def _check_name(self, name: Any) -> str:
        if not isinstance(name, str):
            raise Malformed("the name of the tool is not text")
        if name not in self._parameters:
            raise Malformed(f"no tool is named {name!r}")
        return name

    def _read_function(self, text: str, at: int) -> tuple[NamedCall, int]:
        """Return a call whose values are written as they are, and the place after it.

        `</parameter>` is a part of a value, unless a parameter or the end of the call follows.
        """
        function = _FUNCTION.match(text, at)
        if function is None:
            raise Malformed("a call starts with <function=NAME>")
        name, at = self._check_name(function[1]), function.end()
        arguments: dict[str, Any] = {}
        while parameter := _PARAMETER.match(text, at):
            end = _PARAMETER_END.search(text, parameter.end())
            if end is None:
                raise Malformed("the call is not closed by </parameter> and </function>")
            value, at = text[parameter.end() : end.start()], end.end()
            if _TAG_IN_VALUE.search(value):
                raise Malformed(f"`{parameter[1]}` has a tag of a call in it: write it as JSON")
            if parameter[1] in arguments:
                raise Malformed(f"the call has `{parameter[1]}` twice")
            value = value.removeprefix("\n").removesuffix("\n")
            arguments[parameter[1]] = self._parse(name, parameter[1], value)
        closing = _FUNCTION_END.match(text, at)
        if closing is None:
            raise Malformed("the call is not closed by </function>")
        return (name, json_object(arguments)), closing.end()

    def _parse(self, name: str, parameter: str, value: str) -> Any:
        """Return a value by the schema of its parameter: text as it is, or else its JSON."""
        schema = self._parameters[name]
        if _takes_text(schema.get("properties", {}).get(parameter, {}), schema):
            return value
        try:
            return _JSON.decode(value)
        except ValueError as error:
            raise Malformed(f"`{parameter}` is not JSON: {error}") from None
        except RecursionError:
            raise Malformed(_TOO_DEEP) from None


def _takes_text(schema: Mapping[str, Any], root: Schema) -> bool:
    """Return True if a value can be text, which no schema at all also allows."""
    if "$ref" in schema:
        return _takes_text(root["$defs"][schema["$ref"].rpartition("/")[2]], root)
    if "anyOf" in schema:
        return any(_takes_text(option, root) for option in schema["anyOf"])
    return bool(schema.get("type", "string") == "string")


def _skip_space(text: str, at: int) -> int:
    space = _SPACE.match(text, at)
    return space.end() if space else at
