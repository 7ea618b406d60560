"""A public class name occurs once, so that a search finds one class."""

import ast
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("agent", "eval", "flows", "reports")
TASKS = ROOT / "eval" / "tasks"


def public_classes() -> dict[str, list[str]]:
    """Return the modules that define each public class."""
    found = defaultdict(list)
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            if TASKS in path.parents:
                continue
            for node in ast.parse(path.read_text(encoding="utf-8")).body:
                if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                    found[node.name].append(str(path.relative_to(ROOT)))
    return found


def test_a_public_class_name_occurs_once() -> None:
    """No two modules of the four packages define a public class of the same name."""
    assert {name: paths for name, paths in public_classes().items() if len(paths) > 1} == {}
