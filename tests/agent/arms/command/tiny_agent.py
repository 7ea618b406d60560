"""A coding agent in one file, which speaks any of the four dialects: `tiny_agent.py DIALECT`.

It runs each command that the model calls, and ends with the first reply without a call. Further
arguments: `stream`, `clock` (writes the time into its prompt), `cut` (hangs up when its second
answer has begun, and repeats the request), `web` (offers a tool of Anthropic).
"""

import json
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request

DIALECT, *HABITS = sys.argv[1:]
PATHS = {"chat": "chat/completions", "messages": "messages", "responses": "responses"}
SCHEMA = {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]}


def main():
    task = os.environ["DURABENCH_TASK"]
    if "clock" in HABITS:
        task = f"{time.time_ns()}: {task}"
    talk = [{"role": "user", "content": task}]
    if DIALECT == "responses":
        part = {"type": "input_text", "text": task}
        talk = [{"type": "message", "role": "user", "content": [part]}]
    if DIALECT == "gemini":
        talk = [{"role": "user", "parts": [{"text": task}]}]
    for turn in range(100):
        body = {"model": "claude-haiku-9" if turn == 0 else "tiny-1", **SHAPES[DIALECT](talk)}
        if "web" in HABITS:
            body["tools"].append({"type": "web_search_20250305", "name": "web_search"})
        if "stream" in HABITS:
            body["stream"] = True
        if turn == 1 and "cut" in HABITS:
            hang_up(body)
        answer = ask(body)
        commands = [*READ[DIALECT](answer, talk)]
        for call_id, command in commands:
            done = subprocess.run(["bash", "-c", command], capture_output=True, text=True)
            talk.append(result(call_id, done.stdout + done.stderr))
        if DIALECT == "messages" and commands:
            blocks = [talk.pop() for _ in commands]
            talk.append({"role": "user", "content": blocks[::-1]})
        if DIALECT == "gemini" and commands:
            parts = [talk.pop() for _ in commands]
            talk.append({"role": "user", "parts": parts[::-1]})
        if not commands:
            print("total cost: $0.25")
            return


def prepared(body):
    headers = {
        "Content-Type": "application/json",
        "Authorization": f"Bearer {os.environ['DURABENCH_KEY']}",
        "anthropic-beta": "interleaved-thinking-2025-05-14,tiny-2026",
    }
    url = f"{os.environ['DURABENCH_URL']}/v1/{PATHS.get(DIALECT)}?beta=true"
    if DIALECT == "gemini":
        headers["x-goog-api-key"] = headers.pop("Authorization").removeprefix("Bearer ")
        method = "streamGenerateContent?alt=sse" if body.get("stream") else "generateContent"
        url = f"{os.environ['DURABENCH_URL']}/v1beta/models/{body['model']}:{method}"
        body = {name: body[name] for name in body.keys() - {"model", "stream"}}
    return urllib.request.Request(url, json.dumps(body).encode(), headers)


def ask(body):
    try:
        with urllib.request.urlopen(prepared(body), timeout=60) as response:
            text = response.read().decode()
    except urllib.error.HTTPError as error:
        print(f"refused: {error.code} {error.headers['x-should-retry']} {error.read().decode()}")
        sys.exit(3)
    return joined(text) if "stream" in HABITS else json.loads(text)


def hang_up(body):
    request = prepared(body)
    host, port = request.host.split(":")
    with socket.create_connection((host, int(port))) as connection:
        lines = [f"POST {request.selector} HTTP/1.1", f"Host: {request.host}"]
        lines += [f"{name}: {value}" for name, value in request.header_items()]
        lines += [f"Content-Length: {len(request.data)}", "", ""]
        connection.sendall("\r\n".join(lines).encode() + request.data)
        connection.recv(100)
    time.sleep(0.2)


def joined(text):
    """Put the answer together from the events of a stream."""
    events = [json.loads(line[6:]) for line in text.split("\n") if line.startswith("data: {")]
    if DIALECT == "responses":
        [last] = [each for each in events if each["type"] == "response.completed"]
        return last["response"]
    if DIALECT == "chat":
        message = {}
        for event in events:
            for choice in event["choices"]:
                message.update(choice["delta"])
        return {"choices": [{"message": message}]}
    if DIALECT == "gemini":
        [answer] = events
        return answer
    blocks = []
    for event in events:
        if event["type"] == "content_block_start":
            blocks.append({**event["content_block"], "json": ""})
        if event["type"] == "content_block_delta":
            delta, block = event["delta"], blocks[-1]
            block["text"] = block.get("text", "") + delta.get("text", "")
            block["json"] += delta.get("partial_json", "")
            for name in ("thinking", "signature"):
                block[name] = block.get(name, "") + delta.get(name, "")
    return {"content": [whole(block) for block in blocks]}


def whole(block):
    fields = {"text": ["text"], "thinking": ["thinking", "signature"], "tool_use": ["id", "name"]}
    kept = {name: block[name] for name in ["type", *fields[block["type"]]]}
    return {**kept, "input": json.loads(block["json"])} if "input" in block else kept


def chat(talk):
    function = {"name": "bash", "description": "run", "parameters": SCHEMA}
    return {"messages": talk, "tools": [{"type": "function", "function": function}]}


def messages(talk):
    tools = [{"name": "bash", "description": "run", "input_schema": SCHEMA}]
    thinking = {"thinking": {"type": "enabled", "budget_tokens": 1024}}
    metadata = {"metadata": {"user_id": str(time.time_ns())}}
    return {"messages": talk, "tools": tools, "max_tokens": 4096, **thinking, **metadata}


def responses(talk):
    tools = [{"type": "function", "name": "bash", "description": "run", "parameters": SCHEMA}]
    return {"input": talk, "instructions": "Repair it.", "tools": tools, "store": False}


def gemini(talk):
    declared = {"name": "bash", "description": "run", "parametersJsonSchema": SCHEMA}
    return {"contents": talk, "tools": [{"functionDeclarations": [declared]}]}


def of_gemini(answer, talk):
    talk.append(answer["candidates"][0]["content"])
    for part in talk[-1]["parts"]:
        if call := part.get("functionCall"):
            yield call.get("id"), call["args"]["command"]


def of_chat(answer, talk):
    message = answer["choices"][0]["message"]
    kept = {name: message[name] for name in ("role", "content", "tool_calls") if message.get(name)}
    for call in kept.get("tool_calls", []):
        call.pop("index", None)
    talk.append(kept)
    for call in message.get("tool_calls") or []:
        yield call["id"], json.loads(call["function"]["arguments"])["command"]


def of_messages(answer, talk):
    talk.append({"role": "assistant", "content": answer["content"]})
    for block in answer["content"]:
        if block["type"] == "tool_use":
            yield block["id"], block["input"]["command"]


def of_responses(answer, talk):
    talk.extend(answer["output"])
    for item in answer["output"]:
        if item["type"] == "function_call":
            yield item["call_id"], json.loads(item["arguments"])["command"]


def result(call_id, output):
    if DIALECT == "chat":
        return {"role": "tool", "tool_call_id": call_id, "content": output or "nothing"}
    if DIALECT == "messages":
        return {"type": "tool_result", "tool_use_id": call_id, "content": output or "nothing"}
    if DIALECT == "gemini":
        answered = {"name": "bash", "response": {"output": output or "nothing"}}
        return {"functionResponse": {**answered, **({"id": call_id} if call_id else {})}}
    return {"type": "function_call_output", "call_id": call_id, "output": output or "nothing"}


SHAPES = {"chat": chat, "messages": messages, "responses": responses, "gemini": gemini}
READ = {"chat": of_chat, "messages": of_messages, "responses": of_responses, "gemini": of_gemini}
main()
