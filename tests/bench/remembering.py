"""`durabench` that runs the same tests on the same work tree only once, for large simulations.

Most of an attempt's processor time on a simulated model goes to test runs, and the attempts of an
ablation test the same few trees again and again. Tests that draw at random always run. Host
workspaces only. `python -m tests.bench.remembering run …` takes the arguments of `durabench`.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from agent.checks import running
from agent.tools import TestRun, ToolSettings, testing
from agent.workspaces import Workspace

_really = testing.run_paths
_known: dict[tuple[str, str, bool], tuple[str, TestRun]] = {}


async def run_paths(
    workspace: Workspace,
    settings: ToolSettings,
    paths: Sequence[str],
    *,
    beside_an_edit: bool = False,
) -> TestRun:
    """Return the results of an equal run on an equal tree, or run the tests."""
    again = partial(_really, workspace, settings, paths, beside_an_edit=beside_an_edit)
    if any(_draws(Path(workspace.root), paths)):
        return await again()
    tree = await workspace.tree()
    key = (tree, settings.runner.shell_command(paths), beside_an_edit)
    if key not in _known:
        run = await again()
        if await workspace.tree() != tree:
            return run
        _known[key] = (workspace.root, run)
    root, run = _known[key]
    reports = {name: text.replace(root, workspace.root) for name, text in run.reports.items()}
    return replace(run, output=run.output.replace(root, workspace.root), reports=reports)


def _draws(root: Path, paths: Sequence[str]) -> Iterator[bool]:
    """Yield for each test file whether it draws at random."""
    for path in paths:
        named = root / path.partition("::")[0]
        files = named.rglob("*.py") if named.is_dir() else [named]
        yield from ("random" in file.read_text(errors="replace") for file in files if file.exists())


def main() -> None:
    """Replace the function wherever it is imported, and run `durabench`."""
    for module in (testing, running, testing):
        module.run_paths = run_paths  # type: ignore[attr-defined]
    from flows.cli.app import app

    app(prog_name="durabench")


if __name__ == "__main__":
    main()
