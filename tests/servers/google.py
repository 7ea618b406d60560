"""Google's generateContent, which rejects the same requests as the real one."""

import json
from typing import Any

from tests.servers.strict import Asked, Dialect, Said, check, check_tools

FIELDS = {
    *("contents", "systemInstruction", "tools", "toolConfig", "generationConfig"),
    *("safetySettings", "system_instruction"),
}


class Gemini(Dialect):
    """It signs its calls, and refuses other signatures."""

    def error(self, problem: str) -> dict[str, Any]:
        return {"error": {"code": 400, "message": problem, "status": "INVALID_ARGUMENT"}}

    def read(self, body: dict[str, Any]) -> Asked:
        check(body.keys() <= FIELDS, f"Unknown name: {sorted(body.keys() - FIELDS)}")
        config = body.get("generationConfig") or {}
        check(config.get("maxOutputTokens", 1) > 0, "max_output_tokens must be positive.")
        declared = [each for tool in body.get("tools") or [] for each in tool.values()]
        tools = [function["name"] for functions in declared for function in functions]
        check_tools(tools, None)
        contents = body["contents"]
        self._check_turns(contents)
        parts = [part for content in contents for part in content["parts"]]
        told = [part["text"] for part in parts if "text" in part and not part.get("thought")]
        responses = [part["functionResponse"] for part in parts if "functionResponse" in part]
        results = [str(each["response"].get("output")) for each in responses]
        instruction = body.get("systemInstruction") or body.get("system_instruction") or {}
        instructions = instruction.get("parts") or []
        return Asked(
            system="".join(part["text"] for part in instructions),
            first=told[0],
            turns=sum(content["role"] == "model" for content in contents),
            results=results,
            last=results[-1] if "functionResponse" in contents[-1]["parts"][-1] else told[-1],
            tools=tools,
            choice=None,
        )

    def _check_turns(self, contents: list[dict[str, Any]]) -> None:
        check(contents, "contents is not specified")
        check(contents[-1]["role"] == "user", "the conversation must end with the user")
        waiting: list[str] = []
        for at, content in enumerate(contents):
            check(content["parts"], f"contents[{at}].parts must not be empty.")
            answered = [
                part["functionResponse"]["name"]
                for part in content["parts"]
                if "functionResponse" in part
            ]
            check(
                answered == waiting,
                "the number of function response parts must equal the number of function calls",
            )
            waiting = []
            for part in content["parts"]:
                if call := part.get("functionCall"):
                    check(content["role"] == "model", "only a model calls functions")
                    signature = part.get("thoughtSignature", sign(call))
                    check(signature == sign(call), "thought_signature is not valid")
                    waiting.append(call["name"])

    def written(self, said: Said, number: int) -> dict[str, Any]:
        parts: list[dict[str, Any]] = [{"text": f"thought {number}", "thought": True}]
        if said.text is not None:
            parts.append({"text": said.text})
        for called in said.calls:
            call = {"name": called.name, "args": json.loads(called.arguments)}
            parts.append({"functionCall": call, "thoughtSignature": sign(call)})
        usage = {"promptTokenCount": 100, "candidatesTokenCount": 15, "thoughtsTokenCount": 5}
        return {
            "candidates": [
                {
                    "content": {"role": "model", "parts": parts},
                    "finishReason": "MAX_TOKENS" if said.is_cut else "STOP",
                    "index": 0,
                }
            ],
            "usageMetadata": {**usage, "cachedContentTokenCount": 40, "totalTokenCount": 120},
            "modelVersion": "test",
        }


def sign(call: dict[str, Any]) -> str:
    """Return the signature of a call, which its repetition has to carry."""
    return json.dumps(call["args"], sort_keys=True).encode().hex()
