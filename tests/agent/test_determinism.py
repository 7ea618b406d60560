"""An arm's actions depend only on its task and recorded steps; otherwise it could not resume."""

import ast
from pathlib import Path

import pytest

import agent

FOLDERS = ("arms", "conversation")
ARMS = sorted(
    path
    for folder in FOLDERS
    for path in Path(agent.__file__).parent.joinpath(folder).rglob("*.py")
)
FORBIDDEN_MODULES = {"time", "random", "uuid", "secrets", "datetime"}
FORBIDDEN_READS = {"os.environ.get", "os.getenv", "os.urandom", "os.getpid"}


def undetermined(source: str) -> list[str]:
    """Return the expressions that read a clock, random numbers or the environment."""
    return [ast.unparse(node) for node in ast.walk(ast.parse(source)) if _is_a_reading(node)]


def _is_a_reading(node: ast.AST) -> bool:
    match node:
        case ast.Import(names=names):
            return any(alias.name in FORBIDDEN_MODULES for alias in names)
        case ast.ImportFrom(module=module):
            return module in FORBIDDEN_MODULES
        case ast.Attribute():
            return ast.unparse(node) in FORBIDDEN_READS
        case ast.Subscript(value=value):
            return ast.unparse(value) == "os.environ"
        case _:
            return False


@pytest.mark.parametrize("path", ARMS, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_no_arm_reads_the_clock_dice_or_environment(path: Path) -> None:
    """Clocks, random numbers and the environment differ after a resume, so no arm reads them."""
    assert undetermined(path.read_text()) == []
