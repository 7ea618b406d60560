"""What the interpreter lacks: translated where it can be, or explained to the model.

Translations keep strings, comments and the number of each line.
"""

import builtins
import re
from collections.abc import Collection, Iterator
from functools import lru_cache
from typing import NamedTuple

import tree_sitter_python
from tree_sitter import Language, Node, Parser

from agent.limits import Programs
from agent.ptc.stubs import Function

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


MODULES = (
    "asyncio, base64, bisect, collections, copy, csv, dataclasses, datetime, decimal, functools, "
    "hashlib, itertools, json, math, os.path, pathlib, random, re, sys, time, tomllib, typing, "
    "unicodedata"
)
"""The modules of the interpreter that are of use to a program."""

_SHELL = "`await run_command(command=…)` runs all else, such as python3"
_GENERAL = "work without it: the interpreter is a part of Python"
_TASKS = (
    "asyncio has gather, run, sleep and create_task here; gather runs calls at the same time, so "
    "leave out task groups, locks, semaphores, queues and time limits"
)
_CLASSES = (
    "a class has no base here: raise ValueError or RuntimeError with a text, and write plain "
    "classes, dataclasses or dictionaries"
)

_REMEDIES = (
    (
        r"Name `open`|Permission denied: '|programs have no |os\.environ|`(walk|scandir)`",
        "a program has no own files: `await read(path=…)` is the text of a file or the "
        "names in a folder, and the other tools change files",
    ),
    (
        r"support yield|support async (comp|for)|asynchronous comprehension|`async for`",
        "append to a list in a loop, and return it",
    ),
    (r"async with|async context managers|Module `asyncio`|from 'asyncio'", _TASKS),
    (r"support class inheritance|[`'](abc|enum|NamedTuple|TypedDict)[`']", _CLASSES),
    (r"support method decorators|Name `(super|static|class)", "write plain functions and methods"),
    (r"the 'del' statement", "`del` takes names and items; set an attribute to None"),
    (
        r"CoroutineType|'coroutine' object|not coroutine",
        "write `await` before the call or the task",
    ),
    (r"`return` statement outside", "the value of the last expression is the result"),
    (r"callable replacement", "loop over re.finditer and join the pieces"),
    (r"in this synchronous context", "call tools in a loop or a comprehension"),
    (r"`sys` has no member `exit`|name '(exit|quit)'", "raise an error, or let the program end"),
    (r"'function' object has no attribute", "keep what belongs to functions in a dictionary"),
    (
        r"dataclass\(\) does not|from 'dataclasses'|Module `dataclasses`",
        "dataclasses has dataclass and field here; build dictionaries yourself, sort with `key=`",
    ),
    (
        r"from 'functools'|Module `functools`",
        "functools has partial, reduce, lru_cache and cache here; leave wraps out",
    ),
    (
        r"from 'collections'|Module `collections`",
        "collections has Counter, defaultdict, deque and namedtuple here",
    ),
    (r"No module named 'collections\.abc'|from 'typing'", "leave the annotation out"),
    (r"Name `input`", "a program cannot ask questions"),
    (r"Name `(callable|issubclass)`", "use isinstance, or call it and catch TypeError"),
    (r"imported module|No module named", f"the modules are {MODULES}"),
    (r"not yet supp|supported in|cannot import name|no member|type object '", _GENERAL),
)
"""Patterns of problems with their remedies."""

_LIMITS = (
    (
        r"feed time limit exceeded.*",
        "the program computed for more than {seconds:g} s, the limit for one program without the "
        "time of its tools: do less in one program",
    ),
    (
        r"memory limit exceeded.*",
        "the variables of the program need more than {memory_mb} MB, their limit: keep less",
    ),
    (
        r"maximum recursion depth exceeded",
        "functions called each other more than {recursion} levels deep, the limit: use a loop",
    ),
)


class Opinion(NamedTuple):
    """The opinion of the type checker about a program."""

    problem: str
    """The reason why it cannot be run, or ''."""
    notes: str
    """Possible faults, or ''."""


_DIAGNOSTIC = re.compile(r"program\.py:(\d+):(\d+): \w+\[([\w-]+)\] (.*)")
_CERTAIN = {"invalid-syntax", "unresolved-reference", "unused-awaitable"}
_ARGUMENTS = {"missing-argument", "unknown-argument", "too-many-positional-arguments"}
_OF_AN_AWAITABLE = {
    "unresolved-attribute",
    "invalid-argument-type",
    "not-iterable",
    "not-subscriptable",
    "unsupported-operator",
}


def judge(diagnostics: str, code: str, functions: Collection[Function]) -> Opinion:
    """Sort the lines of the type checker: with some, the program must fail; others are opinions."""
    problems: list[str] = []
    notes: list[str] = []
    for line in filter(None, diagnostics.splitlines()):
        match = _DIAGNOSTIC.fullmatch(line)
        is_certain = match is None or _must_fail(match, code, functions)
        (problems if is_certain else notes).append(line)
    remedies = dict.fromkeys(filter(None, (_remedy(line, functions) for line in problems)))
    return Opinion("\n".join([*problems, *remedies]), "\n".join(notes))


def _must_fail(match: re.Match[str], code: str, functions: Collection[Function]) -> bool:
    line, rule, message = int(match[1]), match[3], match[4]
    source = code.splitlines()[line - 1 : line]
    if rule == "unresolved-import":
        return not "".join(source).startswith((" ", "\t"))  # within `try`, it may fail
    if rule in _ARGUMENTS:
        # Of a call by another name, the checker does not know which tool it is.
        tools = "|".join(function.name for function in functions)
        called = re.search(rf"function `({tools})`", message)
        around = "\n".join(code.splitlines()[max(0, line - 4) : line])
        return called is not None and re.search(rf"\b{called[1]}\(", around) is not None
    classes = {each.__name__ for function in functions for each in function.classes}
    return (
        rule in _CERTAIN
        or (rule in _OF_AN_AWAITABLE and "CoroutineType" in message)
        or message.startswith("Module `")
        or any(f"`{name}`" in message for name in classes)
    )


def explain(failure: str, limits: Programs, functions: Collection[Function]) -> str:
    """Return the failure of a program with the name of the limit, or with a remedy if one is
    known."""
    for pattern, text in _LIMITS:
        if re.search(pattern, failure):
            return re.sub(pattern, text.format(**limits.model_dump()), failure)
    remedy = _remedy(failure.rpartition("\n")[2], functions)
    return f"{failure}\n{remedy}" if remedy else failure


def _remedy(problem: str, functions: Collection[Function]) -> str:
    """Return what to do instead, or '' if that is not known."""
    fitting = (remedy for pattern, remedy in _REMEDIES if re.search(pattern, problem))
    remedy = next(fitting, "") or _remedy_of_name(problem, functions)
    has_shell = any(function.name == "run_command" for function in functions)
    shell = f"; {_SHELL}" if has_shell and (remedy == _GENERAL or MODULES in remedy) else ""
    return f"Instead: {remedy}{shell}." if remedy else ""


def _remedy_of_name(problem: str, functions: Collection[Function]) -> str:
    """Return a remedy that depends on the names in a problem, or ''."""
    if match := re.search(r"function `(\w+)`", problem):
        return next((f"it is `{f.declaration}`" for f in functions if f.name == match[1]), "")
    if match := re.search(r"Name `(\w+)` used when not defined", problem):
        if match[1] in MODULES.split(", "):
            return f"write `import {match[1]}` first"
        names = ", ".join(function.name for function in functions)
        return _GENERAL if hasattr(builtins, match[1]) else f"the functions are {names}"
    if match := re.search(r"'(\w+)' object has no attribute '(\w+)'", problem):
        if match[1] == "dict" and not hasattr(dict, match[2]):
            return f'values of tools are dictionaries: write `["{match[2]}"]`'
        return _GENERAL if hasattr(getattr(builtins, match[1], None), match[2]) else ""
    if match := re.search(r"(?:type|instances of|^TypeError:) '(\w+)'", problem):
        is_own = not hasattr(builtins, match[1]) and match[1] != "NoneType"
        return "call a method: len, < and += do not ask classes of a program" if is_own else ""
    for each in (each for function in functions for each in function.classes):
        if f"`{each.__name__}`" in problem:
            return f"the keys of {each.__name__} are {', '.join(each.__annotations__)}"
    return ""
