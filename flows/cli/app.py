"""The command line: `durabench --help`.

Prefect, LiteLLM, DuckDB and swebench each take a second or more to import. Every command therefore
imports them when it is called, so that `--help` answers at once.
"""

from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from pkgutil import resolve_name
from typing import Annotated

import typer

from flows.cli import (
    agents,
    attempts,
    compare,
    images,
    imports,
    operate,
    report,
    start,
)
from flows.cli.exits import OneLineErrors
from flows.display.terminal import show

app = typer.Typer(
    cls=OneLineErrors,
    help="Is a more careful coding agent worth its cost? Paired benchmarks over SWE-bench.",
    epilog="Exit codes: 0 done, 1 a stated gate failed, 2 wrong usage, 3 broken infrastructure.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


def _show_version(is_wanted: bool) -> None:
    if is_wanted:
        show(f"durabench {version('durabench')}")
        raise typer.Exit


@app.callback()
def _start(
    is_version: Annotated[
        bool,
        typer.Option(
            "--version", help="Show the version and exit.", callback=_show_version, is_eager=True
        ),
    ] = False,
) -> None: ...


WING = "flows.jobs.cli"
"""The commands of jobs, pipelines and chats. They are mounted by name: nothing imports the wing."""

GROUPS: Mapping[str, Sequence[Callable[..., None] | typer.Typer | str]] = {
    "Start here": (
        start.demo,
        compare.compare,
        start.run,
        start.init,
        start.status,
        report.report,
        start.doctor,
    ),
    "Compare": (
        "chat:history",
        compare.power,
        compare.grade,
        compare.export,
        imports.import_app,
    ),
    "Look into an attempt": (
        attempts.debug,
        attempts.trace,
        attempts.graph,
        attempts.diagnose,
        attempts.fork,
    ),
    "Talk to an agent": ("chat:chat", "chat:send", "chat:end", "chat:approve"),
    "Work on a repository": ("job:jobs", "job:job_app", "pipeline:pipeline_app", "mine:mine"),
    "Operate": (
        operate.setup,
        operate.serve_flows,
        "job:serve",
        operate.prune,
        images.images_app,
        agents.agents_app,
    ),
}
"""Commands by group, in the order of `durabench --help`."""

for _group, _commands in GROUPS.items():
    for _command in _commands:
        if isinstance(_command, str):
            _command = resolve_name(f"{WING}.{_command}")
        if isinstance(_command, typer.Typer):
            app.add_typer(_command, rich_help_panel=_group)
        else:
            app.command(rich_help_panel=_group)(_command)
