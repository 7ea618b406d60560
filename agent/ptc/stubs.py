"""Tools as the declarations of functions that a program may call."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, get_args, get_type_hints

_TYPES = {
    "string": "str",
    "integer": "int",
    "number": "float",
    "boolean": "bool",
    "null": "None",
    "object": "dict[str, Any]",
}


@dataclass(frozen=True)
class Function:
    """One tool as a function."""

    name: str
    parameters: Mapping[str, Any]
    """The JSON schema of its arguments."""
    returns: str
    """The type of its value, as an annotation."""
    classes: tuple[type, ...] = ()
    """The dictionaries that it names."""

    @property
    def names(self) -> list[str]:
        """The parameters, in positional order."""
        required = self.parameters.get("required", [])
        properties = self.parameters.get("properties", {})
        return [*required, *(name for name in properties if name not in required)]

    @property
    def declaration(self) -> str:
        """The function as a line of a stub file."""
        required = set(self.parameters.get("required", []))
        properties = self.parameters.get("properties", {})
        parameters = [
            f"{name}: {_type(properties[name])}{'' if name in required else ' = ...'}"
            for name in self.names
        ]
        return f"async def {self.name}({', '.join(parameters)}) -> {self.returns}: ..."


def stubs(functions: Iterable[Function]) -> str:
    """Return the stub file of functions."""
    functions = list(functions)
    classes = dict.fromkeys(each for function in functions for each in function.classes)
    lines = [*map(_declare, classes), *(function.declaration for function in functions)]
    return "\n".join(["from typing import Any, Literal, TypedDict", "", *lines, ""])


def _declare(dictionary: type) -> str:
    fields = get_type_hints(dictionary).items()
    rows = [f"    {name}: {_annotation(kind)}" for name, kind in fields]
    return "\n".join([f"class {dictionary.__name__}(TypedDict):", *rows, ""])


def _annotation(kind: Any) -> str:
    [inner] = get_args(kind) or [None]
    return kind.__name__ if inner is None else f"list[{inner.__name__}]"


def _type(schema: Mapping[str, Any]) -> str:
    if "enum" in schema:
        return f"Literal[{', '.join(map(repr, schema['enum']))}]"
    if "const" in schema:
        return f"Literal[{json.dumps(schema['const'])}]"
    if "anyOf" in schema:
        return " | ".join(dict.fromkeys(_type(option) for option in schema["anyOf"]))
    if schema.get("type") == "array":
        return f"list[{_type(schema.get('items', {}))}]"
    return _TYPES.get(str(schema.get("type")), "Any")
