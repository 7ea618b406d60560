"""From a task to a pull request: `durabench job` and `durabench jobs`."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from typer.core import TyperGroup

from flows.cli.options import ApiBaseOption, LakeOption, ModelOption, ResourcesOption

if TYPE_CHECKING:
    from typer._click.core import Context


class _RunByDefault(TyperGroup):
    """A group whose command `run` may be left out: `durabench job SOURCE TASK`."""

    def parse_args(self, ctx: "Context", args: list[str]) -> list[str]:
        if args and args[0] not in self.commands and args[0] not in ctx.help_option_names:
            args = ["run", *args]
        return super().parse_args(ctx, args)


job_app = typer.Typer(
    name="job",
    cls=_RunByDefault,
    help="Solve a task in any repository, verify the patch and publish it. The command `run` may "
    "be left out: `durabench job SOURCE TASK`.",
    no_args_is_help=True,
)

_Id = Annotated[str, typer.Argument(metavar="ID", help="id of a job, or a prefix of it")]


@job_app.command()
def run(
    source: Annotated[
        str,
        typer.Argument(help="address or path of a repository, owner/name, or an issue's address"),
    ],
    task: Annotated[str, typer.Argument(help="what to do; default the text of the issue")] = "",
    arm: Annotated[
        list[str] | None,
        typer.Option("--arm", "-a", help="agent, or arm of the file; repeatable; default durable"),
    ] = None,
    experiment: Annotated[
        Path | None,
        typer.Option("--experiment", "-x", help="experiment file with arms and their options"),
    ] = None,
    model: ModelOption = None,
    api_base: ApiBaseOption = None,
    ref: Annotated[str | None, typer.Option(help="branch, tag or commit to begin at")] = None,
    pull_request: Annotated[
        bool, typer.Option("--pr", help="publish the patch as a draft pull request")
    ] = False,
    branch: Annotated[bool, typer.Option("--branch", help="publish it as a branch")] = False,
    patch: Annotated[bool, typer.Option("--patch", help="print it, the default")] = False,
    budget: Annotated[float | None, typer.Option(help="US dollars for all arms")] = None,
    verify: Annotated[
        str, typer.Option(help="test command; auto: the project's own; none: no verification")
    ] = "auto",
    approve: Annotated[
        bool, typer.Option("--approve", help="wait for approval before publishing")
    ] = False,
    image: Annotated[
        str | None, typer.Option(help="image to work in; default the repository's own, or by kind")
    ] = None,
    environment: Annotated[
        Literal["docker", "host"],
        typer.Option("--environment", "-e", help="host: run its code on this machine, unprotected"),
    ] = "docker",
    network: Annotated[
        bool, typer.Option("--network", help="give containers network access")
    ] = False,
    resources: ResourcesOption = None,
    lake: LakeOption = None,
) -> None:
    """Solve a task in a repository, verify the patch and publish it.

    The same command again continues the job, and finished work is not bought again.
    """
    from flows.experiments.resources import Resources
    from flows.jobs.cli import jobs

    content = {
        "source": source,
        "task": task,
        "ref": ref,
        "arms": jobs.arms(arm, experiment, model, api_base),
        "publish": _publish(pull_request, branch, patch),
        "budget_usd": budget,
        "verify": verify,
        "approve": approve,
        "image": image,
        "environment": environment,
        "network": network,
        "resources": Resources.parse(resources).model_dump(),
    }
    jobs.run(jobs.request(content), lake)


@job_app.command()
def show(
    job: _Id,
    patch: Annotated[bool, typer.Option("--patch", help="print only the patch")] = False,
    lake: LakeOption = None,
) -> None:
    """Show the state, the report and the result of a job."""
    from flows.jobs.cli import jobs

    jobs.show(job, lake, patch=patch)


@job_app.command()
def revise(
    job: _Id,
    comments: Annotated[str, typer.Argument(help="what to change, as a reviewer would say it")],
    lake: LakeOption = None,
) -> None:
    """Continue a published job: the arms work on review comments, and a commit is added."""
    from flows.jobs.cli import jobs

    jobs.revise(job, comments, lake)


@job_app.command()
def approve(job: _Id, lake: LakeOption = None) -> None:
    """Publish the patch of a job that waits for approval."""
    from flows.jobs.cli import jobs

    jobs.approve(job, lake)


@job_app.command()
def cancel(job: _Id, lake: LakeOption = None) -> None:
    """Cancel a job. What it bought is kept, and running it again continues it."""
    from flows.jobs.cli import jobs

    jobs.cancel(job, lake)


def jobs(lake: LakeOption = None) -> None:
    """List the jobs of a lake, the latest first."""
    from flows.jobs.cli import jobs

    jobs.list_all(lake)


def _publish(pull_request: bool, branch: bool, patch: bool) -> str:
    """Return the way of publishing that the options choose.

    Raises:
        UsageError: they choose several.
    """
    from flows.display.errors import UsageError

    chosen: Sequence[str] = [
        name
        for name, is_given in (("pull_request", pull_request), ("branch", branch), ("patch", patch))
        if is_given
    ]
    if len(chosen) > 1:
        raise UsageError("--pr, --branch and --patch exclude each other: give one of them")
    return chosen[0] if chosen else "patch"
