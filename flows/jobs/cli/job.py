"""From a task to a pull request: `durabench job`, `durabench jobs` and `durabench serve`."""

import asyncio
import json
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal
from uuid import UUID

import typer
from typer.core import TyperGroup

from flows.cli.options import ApiBaseOption, LakeOption, ModelOption, ResourcesOption

if TYPE_CHECKING:
    from typer._click.core import Context

    from flows.jobs.request import Request
    from flows.storage.lake import Lake, Row


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
    ref: Annotated[str | None, typer.Option(help="branch, tag or commit to start at")] = None,
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
    from flows.display.errors import UsageError
    from flows.display.terminal import say
    from flows.experiments.resources import Resources

    options = {"pull_request": pull_request, "branch": branch, "patch": patch}
    publish, *others = [name for name, is_set in options.items() if is_set] or ["patch"]
    if others:
        raise UsageError("--pr, --branch and --patch exclude each other: give one of them")
    if image:
        say(f"nothing is installed in {image}: it must have what the tests need")
    content = {
        "source": source,
        "task": task,
        "ref": ref,
        "arms": find_arms(arm, experiment, model, api_base),
        "publish": publish,
        "budget_usd": budget,
        "verify": verify,
        "approve": approve,
        "image": image,
        "environment": environment,
        "network": network,
        "resources": Resources.parse(resources).model_dump(),
    }
    _run(content, lake)


@job_app.command()
def show(
    job: _Id,
    patch: Annotated[bool, typer.Option("--patch", help="print only the patch")] = False,
    lake: LakeOption = None,
) -> None:
    """Show the state, the report and the result of a job."""
    from flows.display import terminal
    from flows.display.errors import UsageError
    from flows.jobs.body import body
    from flows.storage.files import encode_patch

    _, row = _find(job, lake)
    if patch:
        if row["patch"] is None:
            raise UsageError(f"job {row['job_id']} has no patch so far")
        terminal.write_data(encode_patch(row["patch"]))
        return
    for name in ("job_id", "state", "detail", "source", "title", "base_commit", "branch", "commit",
                 "pull_request", "attempt_id"):  # fmt: skip
        if row[name]:
            terminal.show(f"{name.replace('_', ' ')}: {row[name]}")
    if row["patch"] is not None:
        terminal.write(f"\n{body(row, '')}")


@job_app.command()
def revise(
    job: Annotated[
        str, typer.Argument(metavar="ID", help="id of a job, or the address of its pull request")
    ],
    comments: Annotated[
        str, typer.Argument(help="what to change; comments on the pull request are read, too")
    ] = "",
    lake: LakeOption = None,
) -> None:
    """Continue a published job: the arms work on review comments, and a commit is added."""
    from flows.jobs import rows

    store, row = _find(job, lake)
    _refuse_step(row)
    last = rows.find_last(store, row)["job_id"]
    changes = {"id": None, "revises": last, "task": comments, "ref": None}
    _run(json.loads(row["request"]) | changes, lake)


@job_app.command()
def approve(job: _Id, lake: LakeOption = None) -> None:
    """Publish the patch of a job that waits for approval."""
    from flows.display import terminal
    from flows.display.errors import UsageError
    from flows.jobs import approving
    from flows.jobs.cli import pipeline
    from flows.jobs.mailbox import read_asks

    store, row = _find(job, lake)
    if row["state"] != "waiting":
        raise UsageError(f"job {row['job_id']} does not wait for approval: it is {row['state']}")
    for ask in read_asks(store, row["job_id"]):
        raise UsageError(
            f"arm {ask.attempt.arm} of job {row['job_id']} waits for a person's {ask.wanted}: "
            f"see `durabench history {ask.attempt.attempt_id[:12]}`, and answer with "
            f"`durabench {'approve' if ask.wanted == 'approval' else 'send'}`"
        )
    if asyncio.run(approving.approve(store, row)):
        terminal.show(f"job {row['job_id']} is approved; a worker continues it")
    elif row["pipeline"] or row["run"]:
        pipeline.continue_run(store, row["run"] or row["job_id"])
    else:
        _run(json.loads(row["request"]), lake)


@job_app.command()
def cancel(job: _Id, lake: LakeOption = None) -> None:
    """Cancel a job. What it bought is kept, and running it again continues it."""
    from prefect.client.orchestration import get_client
    from prefect.settings import PREFECT_API_URL

    from flows.display import terminal
    from flows.display.errors import UsageError
    from flows.jobs import flow_runs, rows
    from flows.storage.job_names import FINAL

    store, row = _find(job, lake)
    _refuse_step(row)
    if row["state"] in FINAL:
        raise UsageError(f"job {row['job_id']} has ended: it is {row['state']}")
    rows.update(store, row, state="cancelled", detail="")

    async def ask_to_stop(flow_run_id: UUID) -> bool:
        async with get_client() as client:
            return await flow_runs.cancel(client, flow_run_id)

    run_id = row["flow_run_id"]
    is_asked = PREFECT_API_URL.value() and run_id and asyncio.run(ask_to_stop(UUID(run_id)))
    stopped = "; its flow run is asked to stop" if is_asked else ""
    terminal.show(f"job {row['job_id']} is cancelled{stopped}")


def jobs(lake: LakeOption = None) -> None:
    """List the jobs of a lake, the latest first, with results and reasons of failures."""
    from rich.markup import escape
    from rich.table import Table

    from flows.display import terminal
    from flows.jobs import rows
    from flows.storage.lake import Lake

    table = Table("job", "state", "verdict", "cost", "repository", "task", "result")
    for row in rows.read_all(Lake.existing(lake)):
        cost = "" if row["cost_usd"] is None else f"{row['cost_usd']:.2f}"
        result = row["detail"] or row["pull_request"] or row["branch"] or ""
        verdict = rows.say_verdict(row["verdict"])
        cells = (row["job_id"], row["state"], verdict, cost, row["repo"], row["title"])
        table.add_row(*map(escape, (*cells, result)))
    terminal.out().print(table)


def serve(
    host: Annotated[
        str, typer.Option(help="address to bind; with another than loopback, set a token")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="port")] = 8200,
    rate: Annotated[
        int, typer.Option(min=1, help="requests a minute from one address that change something")
    ] = 120,
    model: ModelOption = None,
    api_base: ApiBaseOption = None,
    budget: Annotated[
        float | None, typer.Option(help="US dollars of a job that names no budget")
    ] = None,
    watch: Annotated[
        list[str] | None,
        typer.Option(help="repository whose labels, mentions and CI are read each minute"),
    ] = None,
    repairs: Annotated[
        int, typer.Option(min=0, help="how often failures of CI go back to a job")
    ] = 2,
    lake: LakeOption = None,
) -> None:
    """Serve jobs and pipelines over HTTP, with pages to submit and to follow them. Ctrl-C ends it.

    Prefect's workers do the work: deploy the flows and start a worker, or `durabench serve-flows`.
    """
    from flows.cli import declarations
    from flows.display.terminal import say
    from flows.jobs.service import app

    known = {"model": declarations.read_model(model, api_base), "budget_usd": budget}
    defaults = {name: value for name, value in known.items() if value is not None}
    say(f"serving http://{host}:{port}; stop with Ctrl-C")
    with suppress(KeyboardInterrupt):
        asyncio.run(
            app.serve(
                host,
                port,
                lake,
                writes_per_minute=rate,
                defaults=defaults,
                watch=watch or [],
                repairs=repairs,
            )
        )


def find_arms(
    names: list[str] | None, experiment: Path | None, model: str | None, api_base: str | None
) -> list[dict[str, Any]]:
    """Return arms, each with its model: the arms of a file, or agents by name.

    Raises:
        UsageError: there is no such arm, or one has no model.
    """
    from flows.cli import declarations
    from flows.experiments import declaration
    from flows.experiments.arms import make_arm, needs_model

    if experiment is not None:
        whole = declaration.load(experiment)
        declared = declarations.override(whole, model=model, api_base=api_base)
        chosen = [declared.arm(name) for name in names] if names else declared.arms
        return [
            arm.model_copy(update={"model": declared.model_of(arm)}).model_dump(mode="json")
            for arm in chosen
        ]
    spec = declarations.read_model(model, api_base)
    arms = [make_arm(name) for name in names or ["durable"]]
    return [{**arm, "model": spec if needs_model(arm["agent"]) else None} for arm in arms]


def _find(job: str, lake: str | None) -> "tuple[Lake, Row]":
    """Return the lake, and the row of the job whose id begins with a text."""
    from flows.jobs import rows
    from flows.storage.lake import Lake

    store = Lake.existing(lake)
    return store, rows.find(store, job)


def _run(content: dict[str, Any], lake: str | None) -> None:
    """Run a job, showing every step, and then its result."""
    from pydantic import ValidationError

    from flows.cli import running
    from flows.display.errors import UsageError
    from flows.experiments.declaration import in_one_line
    from flows.jobs.request import Request
    from flows.server.api import prefect_api

    try:
        request = Request.model_validate(content)
    except ValidationError as error:
        raise UsageError(in_one_line(error)) from None
    with prefect_api():
        from flows.cells.attempts import on_step
        from flows.jobs.job import job

        on_step.set(partial(running.show_step, full=False))
        job_id = running.run_flow(lambda: job(request, lake), needs_litellm=request.needs_litellm)
    _show_end(*_find(job_id, lake), request)


def _show_end(store: "Lake", row: "Row", request: "Request") -> None:
    from flows.display import terminal
    from flows.jobs import rows
    from flows.jobs.changes import tell_automation
    from flows.jobs.mailbox import read_asks
    from flows.storage.files import encode_patch

    if asks := read_asks(store, row["job_id"]):
        for ask in asks:
            attempt, command = ask.attempt, "approve" if ask.wanted == "approval" else "send"
            terminal.show(ask.about)
            terminal.show(
                f"arm {attempt.arm} waits for a person's {ask.wanted}: "
                f"`durabench {command} {attempt.attempt_id[:12]}`, then the same command again"
            )
        return
    verdict = rows.say_verdict(row["verdict"])
    terminal.show(f"job {row['job_id']}: {row['state']}, {verdict}: {row['reason']}")
    if warned := tell_automation(row["patch"]):
        terminal.show(f"the patch {warned}")
    if row["state"] == "waiting":
        terminal.show(f"`durabench job approve {row['job_id']}` publishes it")
    elif rows.is_answer(row):
        terminal.show(json.loads(row["verification"]).get("answer") or "")
    elif request.publish == "patch":
        terminal.write_data(encode_patch(row["patch"]))
    else:
        terminal.show(row["pull_request"] or f"branch {row['branch']}")


def _refuse_step(row: "Row") -> None:
    """Check that a job is none of a pipeline's steps."""
    from flows.display.errors import UsageError

    if row["run"]:
        raise UsageError(
            f"job {row['job_id']} is a step of run {row['run']}: name that run instead"
        )
