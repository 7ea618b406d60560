"""Answers of OpenAI's Responses API as server-sent events, in the order of the real ones."""

import json
import re
from collections.abc import Iterator
from typing import Any

Event = dict[str, Any]


def as_events(response: dict[str, Any], *, most: int | None = None) -> str:
    """Return a response as the text of a stream, or its first events: then it breaks off."""
    events = list(_events(response))[:most]
    numbered = [{**event, "sequence_number": number} for number, event in enumerate(events)]
    return "".join(f"event: {each['type']}\ndata: {json.dumps(each)}\n\n" for each in numbered)


def _events(response: dict[str, Any]) -> Iterator[Event]:
    begun = {**response, "status": "in_progress", "output": [], "usage": None}
    yield {"type": "response.created", "response": begun}
    yield {"type": "response.in_progress", "response": begun}
    for index, item in enumerate(response["output"]):
        at = {"output_index": index}
        yield {"type": "response.output_item.added", **at, "item": _begun(item)}
        yield from _parts(item, {**at, "item_id": item["id"]})
        yield {"type": "response.output_item.done", **at, "item": item}
    yield {"type": f"response.{response['status']}", "response": response}


def _begun(item: dict[str, Any]) -> dict[str, Any]:
    """Return an item as it is when it begins, without what is generated."""
    match item["type"]:
        case "message":
            return {**item, "status": "in_progress", "content": []}
        case "function_call":
            return {**item, "status": "in_progress", "arguments": ""}
        case _:
            return item


def _parts(item: dict[str, Any], at: dict[str, Any]) -> Iterator[Event]:
    match item["type"]:
        case "message":
            for number, part in enumerate(item["content"]):
                here = {**at, "content_index": number}
                whole_part = {**part, "logprobs": []}
                empty = {**whole_part, "text": ""}
                yield {"type": "response.content_part.added", **here, "part": empty}
                for word in re.findall(r"\S+\s*", part["text"]):
                    delta = {"delta": word, "logprobs": []}
                    yield {"type": "response.output_text.delta", **here, **delta}
                whole = {"text": part["text"], "logprobs": []}
                yield {"type": "response.output_text.done", **here, **whole}
                yield {"type": "response.content_part.done", **here, "part": whole_part}
        case "function_call":
            for start in range(0, len(item["arguments"]), 8):
                delta = {"delta": item["arguments"][start : start + 8]}
                yield {"type": "response.function_call_arguments.delta", **at, **delta}
            done = {"arguments": item["arguments"]}
            yield {"type": "response.function_call_arguments.done", **at, **done}
