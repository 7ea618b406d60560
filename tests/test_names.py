"""A public class name occurs once, so that a search finds one class."""

import ast
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("agent", "eval", "flows", "reports")
TASKS = ROOT / "eval" / "tasks"

SHARED = frozenset(
    [
        "Anchor",
        "Answer",
        "ApplyPatch",
        "Asked",
        "Begun",
        "Call",
        "Change",
        "Choice",
        "Conversation",
        "CustomTool",
        "Declared",
        "Ended",
        "File",
        "Files",
        "Finding",
        "Finished",
        "Foreign",
        "Format",
        "Function",
        "FunctionTool",
        "Image",
        "Item",
        "Kind",
        "Limits",
        "Line",
        "Message",
        "Named",
        "Namespace",
        "Observer",
        "Place",
        "Plan",
        "Prepared",
        "Program",
        "Ran",
        "Reader",
        "Reference",
        "Refusal",
        "Report",
        "Reported",
        "Results",
        "Seen",
        "Shell",
        "State",
        "Switch",
        "Text",
        "ToolResult",
        "ToolUse",
        "Waiting",
        "Work",
    ]
)
"""Names that still occur several times. Remove a name here when its classes are renamed."""


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
    """Each other name is in the list above, which holds no name that occurs once."""
    shared = {name: paths for name, paths in public_classes().items() if len(paths) > 1}
    assert {name: shared[name] for name in shared.keys() - SHARED} == {}
    assert shared.keys() >= SHARED
