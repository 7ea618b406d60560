"""Names are found by search: verbs for functions, nouns for values, one class for a name."""

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("agent", "eval", "flows", "reports")
TASKS = ROOT / "eval" / "tasks"

IRREGULAR_PARTICIPLES = frozenset(
    [
        "begun",
        "bought",
        "brought",
        "built",
        "done",
        "drawn",
        "found",
        "free",
        "given",
        "gone",
        "held",
        "kept",
        "known",
        "led",
        "left",
        "lost",
        "made",
        "met",
        "said",
        "seen",
        "sent",
        "shown",
        "swept",
        "taken",
        "told",
        "written",
    ]
)
VERBS_IN_ED = frozenset({"embed", "exceed", "feed", "heed", "need", "proceed", "seed", "shed"})

VAGUE = frozenset(
    [
        "asked",
        "each",
        "found",
        "given",
        "here",
        "kept",
        "known",
        "left",
        "made",
        "one",
        "own",
        "said",
        "shown",
        "there",
        "told",
    ]
)
"""Words that say nothing about the value of a variable."""

MOST_VAGUE = 0.01
"""The largest share of assignments to variables with such names."""


def parse_modules() -> Iterator[tuple[str, ast.Module]]:
    """Yield the path and the syntax tree of each module of the product."""
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            if TASKS not in path.parents:
                yield str(path.relative_to(ROOT)), ast.parse(path.read_text(encoding="utf-8"))


def begins_with_participle(name: str) -> bool:
    """Return True for names such as `shown` and `_listed_cells`."""
    word = name.strip("_").split("_")[0]
    is_regular = word.endswith("ed") and word not in VERBS_IN_ED
    return is_regular or word in IRREGULAR_PARTICIPLES


def test_a_public_class_name_occurs_once() -> None:
    """No two modules of the four packages define a public class of the same name."""
    paths_by_name = defaultdict(list)
    for path, module in parse_modules():
        for node in module.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                paths_by_name[node.name].append(path)
    assert {name: paths for name, paths in paths_by_name.items() if len(paths) > 1} == {}


def test_the_name_of_a_function_begins_with_a_verb() -> None:
    """No function is named by a participle. A property can be: it is a noun or an adjective."""
    names = [
        f"{path}:{node.lineno} {node.name}"
        for path, module in parse_modules()
        for node in ast.walk(module)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        if begins_with_participle(node.name)
        if not any("property" in ast.unparse(decorator) for decorator in node.decorator_list)
    ]
    assert names == []


def test_the_names_of_variables_say_what_they_hold() -> None:
    """Nearly no assignment binds a word such as `found` or `each`."""
    vague, count = [], 0
    for path, module in parse_modules():
        for node in ast.walk(module):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                count += 1
                if node.id in VAGUE:
                    vague.append(f"{path}:{node.lineno} {node.id}")
    assert len(vague) <= MOST_VAGUE * count, "\n".join(vague)
