"""Show the progress and the cost of experiments."""

from typing import Annotated

import typer

from flows.cli.options import LakeOption


def status(
    name: Annotated[
        str | None,
        typer.Argument(help="experiment, or id of an attempt; all experiments if left out"),
    ] = None,
    cells: Annotated[bool, typer.Option("--cells", help="every cell with its attempt")] = False,
    json: Annotated[bool, typer.Option("--json", help="as JSON, with every cell")] = False,
    lake: LakeOption = None,
) -> None:
    """Show the progress and cost of experiments, including running attempts."""
    from flows.cli import status_text

    status_text.show(name, lake, cells=cells, as_json=json)
