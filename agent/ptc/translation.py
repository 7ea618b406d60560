"""Usual Python that the interpreter lacks, in its own terms.

Strings and comments stay as they are, and so does the number of each line.
"""

from collections.abc import Iterator
from functools import lru_cache

import tree_sitter_python
from tree_sitter import Language, Node, Parser

PRELUDE = """
import asyncio

async def asyncio_gather(*calls, return_exceptions=False):
    async def settle(call):
        try:
            return await call
        except Exception as error:
            return error
    if return_exceptions:
        calls = [settle(call) for call in calls]
    return await asyncio.gather(*calls)

def asyncio_create_task(call, name=None):
    return call

def map(function, *rows):
    return iter([function(*row) for row in zip(*rows)])
"""
"""Runs before each program. Calls of tools start at once, so a task is the call itself; a function
of a program starts when it is awaited. The interpreter's own `map` cannot call tools."""

_ERRORS = (
    "FileExistsError FileNotFoundError ImportError IsADirectoryError ModuleNotFoundError "
    "NotADirectoryError PermissionError UnboundLocalError UnicodeDecodeError UnicodeEncodeError"
)
_VALUES = "filter format getattr hasattr map setattr asyncio_gather asyncio_create_task"

KNOWN_NAMES = "\n".join(
    [
        "import asyncio as asyncio",
        *(f"class {name}(Exception): ..." for name in _ERRORS.split()),
        *(f"{name}: Any" for name in _VALUES.split()),
        "",
    ]
)
"""Declarations of names that programs have and the type checker does not know."""


@lru_cache
def _parser() -> Parser:
    return Parser(Language(tree_sitter_python.language()))


def translate(code: str) -> str:
    """Return the program as the interpreter takes it, or as it is where it is not valid Python."""
    source = code.encode()
    root = _parser().parse(source).root_node
    if root.has_error:
        return code
    for start, end, text in sorted(_edits(root), reverse=True):
        source = source[:start] + text.encode() + source[end:]
    return source.decode()


def _edits(root: Node) -> Iterator[tuple[int, int, str]]:
    """Yield pieces that are to be replaced, as offsets and a text. They do not overlap."""
    nodes = [root]
    while nodes:
        node = nodes.pop()
        replacement = _replace(node)
        if replacement is None:
            nodes += node.children
        else:
            yield node.start_byte, node.end_byte, replacement


def _replace(node: Node) -> str | None:
    match node.type:
        case "future_import_statement":
            return "pass"
        case "attribute":
            return _replace_attribute(node)
        case "delete_statement":
            [targets] = node.named_children
            each = targets.named_children if targets.type == "expression_list" else [targets]
            parts = [_replace_deletion(target) for target in each]
            return None if None in parts else "; ".join([*filter(None, parts), "None"])
        case _:
            return None


def _replace_attribute(node: Node) -> str | None:
    owner, *_, name = node.children
    if owner.type != "identifier":
        return None
    match [_text(owner), _text(name)]:
        case ["asyncio", "create_task" | "ensure_future"]:
            return "asyncio_create_task"
        case ["asyncio", "gather"] if _has_keyword(node.parent, "return_exceptions"):
            return "asyncio_gather"
        case ["str", method] if method != "maketrans":
            return f"(lambda text, *rest: text.{method}(*rest))"
        case _:
            return None


def _has_keyword(call: Node | None, name: str) -> bool:
    arguments = call.child_by_field_name("arguments") if call is not None else None
    return arguments is not None and any(
        argument.type == "keyword_argument" and _text(argument).startswith(name)
        for argument in arguments.named_children
    )


def _replace_deletion(target: Node) -> str | None:
    match target.type, target.named_children:
        case "identifier", _:
            return f"{_text(target)} = None"
        case "subscript", [owner, index]:
            if index.type == "slice":
                return f"{_text(owner)}[{_text(index)}] = []"
            return f"{_text(owner)}.pop({_text(index)})"
        case _:
            return None


def _text(node: Node) -> str:
    return (node.text or b"").decode()


def find_last_assignment(code: str) -> str:
    """Return the name that the last line of a program assigns to, or ''."""
    match _parser().parse(code.encode()).root_node.named_children:
        case [*_, Node(type="expression_statement", named_children=[assignment])]:
            target = assignment.child_by_field_name("left")
            is_name = target is not None and target.type == "identifier"
            return _text(target) if target is not None and is_name else ""
        case _:
            return ""
