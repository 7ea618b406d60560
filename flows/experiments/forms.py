"""Additions to the schema of an experiment for Prefect's forms: an order, and rules."""

from collections.abc import Callable
from typing import Any

from agent.arms import ARMS

JsonSchema = dict[str, Any]


def _rule(if_: JsonSchema, then: JsonSchema) -> JsonSchema:
    # With a type in it, Prefect names the violated rule instead of printing the whole experiment.
    wanted = {"type": "object", "required": list(then), "properties": then}
    return {"if": {"required": list(if_), "properties": if_}, "then": wanted}


_MODEL = {"type": ["string", "object"]}
_NEEDS_MODEL = [name for name, arm in ARMS.items() if arm.needs_model]

RULES: JsonSchema = {
    "execution": _rule(
        {"execution": {"const": "distributed"}}, {"environment": {"enum": ["docker", "host"]}}
    ),
    "family": _rule({"family": {"minItems": 1}}, {"primary": {"type": "object"}}),
    "stop_when": _rule({"stop_when": {"type": "object"}}, {"primary": {"type": "object"}}),
    "arms": {
        "if": {"required": ["model"], "properties": {"model": _MODEL}},
        "else": {
            "properties": {
                "arms": {"items": _rule({"agent": {"enum": _NEEDS_MODEL}}, {"model": _MODEL})}
            }
        },
    },
}
"""Rules over several fields as `dependentSchemas`, by the field that each depends on.

A Prefect server refuses a flow run that breaks one. `Experiment` checks these and all others.
"""


def number_fields(schema: JsonSchema, resolve: Callable[[JsonSchema], JsonSchema]) -> None:
    """Add to every field its `position`: Prefect's forms sort the fields of an object by it.

    PostgreSQL does not keep the order of the keys of a schema. `resolve` returns the schema that a
    reference names.
    """
    waiting, numbered = [schema], set[int]()
    while waiting:
        part = resolve(waiting.pop())
        if id(part) in numbered:
            continue
        numbered.add(id(part))
        fields = part.get("properties", {}).values()
        for position, field in enumerate(fields):
            field["position"] = position
        items = [part[key] for key in ("items", "additionalProperties") if key in part]
        alternatives = [inner for key in ("anyOf", "oneOf") for inner in part.get(key, [])]
        waiting += [inner for inner in (*fields, *items, *alternatives) if isinstance(inner, dict)]
