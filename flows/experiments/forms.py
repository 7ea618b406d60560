"""Schemas of parameters for Prefect's forms: fields to edit, and errors that name the wrong key.

A form draws the alternatives of `anyOf` as tabs, and opens the tab with the most keys in common. A
server answers to a wrong value only that it fits no alternative. Therefore a union also has an
alternative that accepts every value, and `if` selects the alternative to check.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from pydantic import GetJsonSchemaHandler
from pydantic_core import CoreSchema

from agent.arms import ARMS

JsonSchema = dict[str, Any]
Resolve = Callable[[JsonSchema], JsonSchema]
"""A function that returns the schema that a reference names."""


def _rule(if_: JsonSchema, then: JsonSchema) -> JsonSchema:
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

_ANYTHING: JsonSchema = {"title": "JSON"}
"""The alternative that accepts every value. Its tab is a field for JSON."""


class Form:
    """A base class, or an annotation, of parameters that Prefect shows as a form."""

    @classmethod
    def __get_pydantic_json_schema__(
        cls, core: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchema:
        schema = handler(core)
        complete_schema(schema, handler.resolve_ref_schema)
        return schema


class ArmForm:
    """An annotation of a union of arms: a form shows an object with an agent to select."""

    def __get_pydantic_json_schema__(
        self, core: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchema:
        kinds = [handler.resolve_ref_schema(kind) for kind in _list_alternatives(handler(core))]
        return _merge_arms(kinds)


def complete_schema(schema: JsonSchema, resolve: Resolve) -> None:
    """Prepare a schema and all its parts for Prefect's forms.

    Each field gets a title and its `position`. A form sorts the fields by position, because
    PostgreSQL does not keep the order of the keys. The only value of a field becomes its default.
    """
    waiting, completed = [schema], set[int]()
    while waiting:
        part = resolve(waiting.pop())
        if id(part) in completed:
            continue
        completed.add(id(part))
        for position, (name, field) in enumerate(part.get("properties", {}).items()):
            field["position"] = position
            field.setdefault("title", name.replace("_", " ").title())
            if "const" in field:
                field.setdefault("default", field["const"])
        _check_by_kind(part, resolve)
        waiting += _list_parts(part)


def _list_parts(part: JsonSchema) -> Iterator[JsonSchema]:
    """Yield the schemas directly inside a schema."""
    yield from part.get("properties", {}).values()
    for key in ("anyOf", "oneOf"):
        yield from part.get(key, [])
    for key in ("items", "additionalProperties", "then", "else"):
        if isinstance(part.get(key), dict):
            yield part[key]


def _list_alternatives(union: JsonSchema) -> Iterator[JsonSchema]:
    """Yield the alternatives of a union. A union among them is replaced by its alternatives."""
    inner = [*union.get("anyOf", []), *union.get("oneOf", [])]
    if not inner:
        yield union
    for alternative in inner:
        yield from _list_alternatives(alternative)


def _check_by_kind(part: JsonSchema, resolve: Resolve) -> None:
    """Let a union with objects check one alternative only."""
    alternatives = list(_list_alternatives(part))
    objects = [kind for kind in alternatives if resolve(kind).get("type") == "object"]
    others = [kind for kind in alternatives if kind not in (*objects, _ANYTHING)]
    if part in alternatives or not objects or _ANYTHING in alternatives:
        return
    for key in ("oneOf", "discriminator"):
        part.pop(key, None)
    part["anyOf"] = [*alternatives, _ANYTHING]
    part["if"], part["then"] = {"type": "object"}, _choose(objects, resolve)
    part["else"] = others[0] if len(others) == 1 else {"anyOf": others or [{"type": "object"}]}


def _choose(objects: Sequence[JsonSchema], resolve: Resolve) -> JsonSchema:
    """Return the check of an object whose kind is in a constant field."""
    first, *rest = objects
    if not rest:
        return first
    fields = [resolve(kind)["properties"] for kind in objects]
    [name] = {name for name in fields[0] if all("const" in kind.get(name, {}) for kind in fields)}
    constants = [kind[name]["const"] for kind in fields]
    unnamed = [kind for kind in objects if name not in resolve(kind).get("required", [])]
    check: JsonSchema = {
        "type": "object",
        "properties": {name: {"enum": constants}},
        "if": {"not": {"required": [name]}},
        "then": unnamed[0] if unnamed else {"required": [name]},
    }
    for constant, kind in zip(constants, objects, strict=True):
        of_kind = {"required": [name], "properties": {name: {"const": constant}}}
        check = {"if": of_kind, "then": kind, "else": check}
    return check


def _merge_arms(kinds: Sequence[JsonSchema]) -> JsonSchema:
    """Return the schema of any arm, from the kinds of arms.

    A form shows the options as JSON. Tabs would not do: agents share the names of their options, so
    a form could open the tab of another agent. A derived arm has the agent of its base.
    """
    fields = kinds[0]["properties"]
    descriptions = list[str]()
    agents = list[str]()
    derives = {"required": ["from"], "properties": {"from": {"type": "string"}}}
    check: JsonSchema = {"if": derives, "else": {"required": ["agent"]}}
    for kind in kinds:
        if (agent := kind["properties"].get("agent")) is None:
            continue
        names = agent.get("enum", [agent.get("const")])
        of_kind = {"required": ["agent"], "properties": {"agent": {"enum": names}}}
        options = {"options": kind["properties"]["options"]}
        required = [name for name in kind["required"] if name in options]
        wanted = {"type": "object", "properties": options, "required": required}
        check = {"if": of_kind, "then": wanted, "else": check}
        agents += names
        descriptions.append(f"{' or '.join(names)}: {agent['description']}")
    return {
        "type": "object",
        "title": "Arm",
        "properties": {
            "name": fields["name"],
            "agent": {"type": "string", "enum": agents, "description": "; ".join(descriptions)},
            "model": fields["model"],
            "options": {"type": "object", "description": "settings of the agent, as JSON"},
            "from": fields["from"],
        },
        "required": ["name"],
        "additionalProperties": False,
        **check,
    }
