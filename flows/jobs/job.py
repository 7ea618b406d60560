"""The flow of a job: a task in a repository, solved by arms, verified and published."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict
from functools import partial
from typing import Any
from weakref import WeakValueDictionary

from prefect import flow
from prefect.artifacts import acreate_link_artifact, acreate_markdown_artifact
from prefect.client.schemas.objects import State
from prefect.states import Completed

from agent.errors import BudgetExhausted, Interrupted, Waiting, one_line
from eval.digests import canonical_digest
from eval.types import Instance
from flows.cells.attempts import solve_only
from flows.display.errors import GateFailed, IncompleteRun, UsageError
from flows.experiments import resources
from flows.experiments.cell_state import find_unsolved
from flows.experiments.cells import Cell, Place
from flows.experiments.earlier import resume_attempts
from flows.experiments.keys import attempt_id_of
from flows.experiments.plan import declare
from flows.experiments.probe import refuse_unusable_models
from flows.experiments.records import get_journal_attempt
from flows.experiments.stop import Stop
from flows.jobs import approving, body, commits, mailbox, publishing, rows, verification
from flows.jobs.changes import tell_automation
from flows.jobs.flow_runs import name_job
from flows.jobs.preparing import Prepared, open_place, prepare
from flows.jobs.request import Request, forge_token
from flows.jobs.verification import NO_EVIDENCE, CandidatePatch, Checks, Judged
from flows.server.artifacts import artifact_key
from flows.server.caching import cache_permanently, result_of
from flows.server.flow_run import check_starts, end_as_state, find_own, name_run
from flows.server.logs import run_log
from flows.server.retry import patiently
from flows.server.stopping import graceful_stop
from flows.server.turns import in_turn
from flows.storage import journals
from flows.storage.cleanup import clean_up_around
from flows.storage.files import patch_sha256
from flows.storage.lake import Lake, Row
from reports.quoting import quote_block, quote_text

_AT_BASE = WeakValueDictionary[str, asyncio.Lock]()
"""Locks by key: steps of a pipeline that start at the same commit verify it once."""


def _key(parameters: dict[str, Any]) -> str:
    """Return the key of a verification: exactly the inputs that determine its results."""
    instance, place, checks = (parameters[name] for name in ("instance", "place", "checks"))
    limits = resources.in_key(place.limits(instance))
    where = [place.environment, place.image_digest, place.network, *limits.items()]
    what = [instance.repo, instance.base_commit, parameters.get("patch", "")]
    return canonical_digest([*what, *where, asdict(checks)])


@cache_permanently("verification-base", "verify {instance.repo} at its base commit", _key)
async def verify_base(instance: Instance, place: Place, checks: Checks) -> State[dict[str, Any]]:
    """Run the tests at the base commit. Return their results, in a state."""
    results = await verification.before(instance, place, checks)
    return _show_tests(results["tests"], results)


@cache_permanently("verification", "verify a patch of {instance.repo}", _key)
async def verify_patch(
    instance: Instance, place: Place, checks: Checks, patch: str
) -> State[dict[str, Any]]:
    """Run the tests with a patch. Return their results, in a state."""
    results = await verification.after(instance, place, checks, patch)
    return _show_tests(results["state"]["tests"] if results["state"] else None, results)


def _show_tests(tests: dict[str, Any] | None, results: dict[str, Any]) -> State[dict[str, Any]]:
    if tests is None:
        return Completed(message="the patch does not apply", data=results)
    failed = len(tests["failed"]) + len(tests["errors"])
    message = f"{len(tests['passed'])} passed, {failed} failed, exit code {tests['exit_code']}"
    return Completed(message=message, data=results)


@flow(name="job")
@end_as_state
async def job(request: Request, lake: str | None = None) -> str:
    """Solve a task in a repository, verify the patch and publish it. Return the job's id.

    The same request again continues the job: finished work is kept, and nothing is bought twice.

    Args:
        request: The repository, the task, the arms, and the use of the patch. It contains no
            token: a worker takes that from its own environment.
        lake: Location of the results, a folder as the worker sees it or s3://…; by default the
            worker's DURABENCH_LAKE.

    Raises:
        DatasetError, UsageError: the repository, its forge or the request has to be changed.
        GateFailed: no arm left a patch or an answer, or the best patch breaks tests.
        IncompleteRun: a budget is exhausted; run again with a larger one to continue.
        Interrupted: the operator asked to stop; calls in flight are recorded.
    """
    check_starts()
    own_run = find_own()
    if request.id is None and own_run is not None and own_run.deployment_id is not None:
        request = request.model_copy(update={"id": own_run.id.hex[:10]})  # each run is a new job
    request = request.model_copy(update={"id": request.job_id})
    store = Lake.open(lake)
    await name_run(name_job(request.job_id))
    async with (
        note_failure(store, request),
        forge_token(request),
        rows.show_life(store, request.job_id),
    ):
        prepared = await asyncio.to_thread(prepare, request, store)
        row = prepared.row
        if not is_published(row, request):
            row = await _solve_and_publish(prepared, row, store)
    await publish_report(row, store)
    return Completed(message=summarize(row), data=request.job_id)  # type: ignore[return-value]  # Prefect unwraps it


def flow_run_id() -> str | None:
    run = find_own()
    return str(run.id) if run else None


def is_published(row: Row, request: Request) -> bool:
    """Return True if the job has ended with the requested result."""
    result_column = {"patch": "commit", "branch": "branch", "pull_request": "pull_request"}
    has_result = bool(row["state"] == "done" and row[result_column[request.publish]])
    return has_result or rows.is_answer(row)


async def _solve_and_publish(prepared: Prepared, row: Row, store: Lake) -> Row:
    """Return the last row of the job, which is written in any case."""
    state = {"state": "running", "detail": "", "flow_run_id": flow_run_id()}
    row = await asyncio.to_thread(rows.update, store, row, **state)
    async with graceful_stop() as stop, clean_up_around(store):
        row = await solve_job(prepared, row, store, stop)
    if row["state"] in ("waiting", "cancelled"):
        return row
    if not row["patch"].strip():
        row = rows.update(store, row, state="done")  # first: a comment is made at most once
        await asyncio.to_thread(publishing.answer, row, prepared.request, prepared.source)
        return row
    if prepared.request.approve:
        row = await await_approval(row, store)
        if row["state"] != "running":
            return row
    return await asyncio.to_thread(publish_job, prepared, row, store)


async def await_approval(row: Row, store: Lake) -> Row:
    """Return the row of a job that needs approval: running again, cancelled, or waiting."""
    row = rows.update(store, row, state="waiting", detail="the patch waits for approval")
    question = f"**{quote_text(row['title'])}**\n\n{rows.say_verdict(row['verdict'])}: "
    question += quote_text(row["reason"])
    if warning := tell_automation(row["patch"]):
        question += f"\n\n**The patch {quote_text(warning)}**"
    if not await asyncio.to_thread(approving.is_asked, store, row):
        request = Request.model_validate_json(row["request"])
        about = f"{question}\n\n`durabench job show {row['job_id']} --patch` prints the patch."
        await asyncio.to_thread(publishing.comment_question, request, "approval", about)
    decision = await approving.decide(store, [row], question)
    if decision is None:
        return row
    if not decision:
        return rows.update(store, row, state="cancelled", detail="the patch was not approved")
    return rows.update(store, row, state="running", detail="")


async def solve_job(prepared: Prepared, row: Row, store: Lake, stop: Stop) -> Row:
    """Solve and verify a job. Return its row with the best patch, or waiting for a person.

    Raises:
        GateFailed, IncompleteRun, Interrupted, UsageError: as in `job`.
    """
    earlier = await asyncio.to_thread(mailbox.read_asks, store, row["job_id"])
    try:
        report = partial(rows.report, store, row)
        async with open_place(prepared, store, report) as place:
            candidates = await _solve_all(prepared, place, store, stop)
            row = _choose(prepared, row, candidates, store)
            stop.check()
    except Waiting as error:
        stored = await asyncio.to_thread(rows.read, store, row["job_id"])
        if stored is not None and stored["state"] == "cancelled":
            return stored
        asks = await asyncio.to_thread(mailbox.read_asks, store, row["job_id"])
        detail = mailbox.describe_asks(asks) or str(error)
        row = rows.update(store, row, state="waiting", detail=detail)
        for ask in asks:
            if ask not in earlier:
                about = quote_block(ask.about[: mailbox.MOST_CHARACTERS])
                await asyncio.to_thread(
                    publishing.comment_question, prepared.request, ask.wanted, about
                )
    return row


@asynccontextmanager
async def note_failure(store: Lake, request: Request, **known: object) -> AsyncIterator[None]:
    """End a job in its row with the error of the block. `known` are columns of a new row.

    One that its operator stopped is cancelled, unless another worker continues its flow run. A
    flow run comments on a failure at most once, also if it is started again.
    """
    before = rows.read(store, request.job_id) or {}
    try:
        yield
    except (Exception, asyncio.CancelledError) as error:  # a stop cancels what does not end
        run, row = find_own(), rows.read(store, request.job_id)
        is_ordered = run is not None and run.deployment_id is not None
        if not isinstance(error, Interrupted | asyncio.CancelledError):
            known = {**known, "flow_run_id": flow_run_id()}
            rows.refuse(store, request, one_line(error), is_ordered, **known)
            if (before.get("state"), before.get("flow_run_id")) != ("failed", flow_run_id()):
                with suppress(UsageError):  # the block of the token is not there
                    async with forge_token(request):
                        await asyncio.to_thread(
                            publishing.comment_failure, request, one_line(error)
                        )
        elif row is not None:
            ended = {} if is_ordered else {"state": "cancelled"}
            rows.update(store, row, detail=str(error) or "cut off by a stop", **ended)
        raise


def publish_job(prepared: Prepared, row: Row, store: Lake) -> Row:
    """Commit and publish the patch in the row of a job. Return its last row.

    Raises:
        Interrupted: the job was cancelled meanwhile.
        DatasetError, UsageError, InfrastructureError: as in `publishing.publish`.
    """
    stored = rows.read(store, row["job_id"])
    if stored is not None and stored["state"] == "cancelled":
        raise Interrupted(f"job {row['job_id']} was cancelled; run it again to continue")
    if row["pipeline"] is None:  # the commits of a pipeline are made already
        row = rows.update(store, row, commit=commits.commit(prepared.mirror, row))
    row = publishing.publish(store, row, prepared.request, prepared.source, prepared.mirror)
    return rows.update(store, row, state="done", detail="")


async def _solve_all(
    prepared: Prepared, place: Place, store: Lake, stop: Stop
) -> list[CandidatePatch]:
    """Return the patches of all arms, verified."""
    experiment, instance = prepared.experiment, prepared.instance
    await asyncio.to_thread(journals.claim, store, experiment.name)
    declare(experiment, [instance], place.environment, store)
    planned = [Cell(experiment, arm, instance, 0, place) for arm in experiment.arms]
    cells = await asyncio.to_thread(resume_attempts, planned, store)
    unsolved = await asyncio.to_thread(find_unsolved, cells, store)
    await refuse_unusable_models(experiment, unsolved)
    if prepared.checks is not None and not prepared.follows:  # before anything is bought
        rows.report(store, prepared.row, "running the tests at the base commit")
        await _verify_base(prepared, place, store)
    rows.update(store, prepared.row, detail="")
    attempts = [get_journal_attempt(cell, attempt_id_of(cell)) for cell in cells]
    await asyncio.to_thread(mailbox.start, store, prepared.request.job_id, attempts)
    works: list[Awaitable[Any]] = [_solve_one(prepared, cell, store, stop) for cell in cells]
    if prepared.checks is not None and prepared.follows:  # earlier steps have shown that it works
        works.append(_verify_base(prepared, place, store))
    ended = await asyncio.gather(*works, return_exceptions=True)
    errors = [result for result in ended if isinstance(result, BaseException)]
    others = [error for error in errors if not isinstance(error, BudgetExhausted)]
    if others:
        raise min(others, key=lambda error: isinstance(error, Waiting))
    if len(errors) == len(cells):
        raise IncompleteRun(f"{errors[0]}; run again with a larger --budget to continue")
    return [result for result in ended if isinstance(result, CandidatePatch)]


async def _verify_base(prepared: Prepared, place: Place, store: Lake) -> dict[str, Any]:
    assert prepared.checks is not None
    key = _key({"instance": prepared.instance, "place": place, "checks": prepared.checks})
    async with _AT_BASE.setdefault(key, asyncio.Lock()):
        return await result_of(verify_base, store, prepared.instance, place, prepared.checks)


async def _solve_one(prepared: Prepared, cell: Cell, store: Lake, stop: Stop) -> CandidatePatch:
    solve = partial(solve_only, cell, store, stop=stop)
    attempt_id = await in_turn(solve, cell.label, store, stop)
    [attempt] = store.read("attempts", *cell.partition, attempt_id)
    [prediction] = store.read("predictions", *cell.partition, attempt_id)
    patch = prediction["model_patch"]
    stop.check()
    if prepared.checks is not None and patch.strip():
        rows.report(store, prepared.row, f"running the tests with the patch of {cell.arm.name}")
    judged = await judge(prepared, cell.place, store, patch)
    about = {"agent_verdict": attempt["agent_verdict"], "agent_rules": prepared.rules}
    if not patch.strip():
        about["answer"] = attempt["detail"]
    evidence = json.dumps(judged.evidence | about)
    run_log().info("%s: %s, %s", cell.label, judged.verdict, judged.reason)
    return CandidatePatch(cell.arm.name, patch, attempt, judged.verdict, judged.reason, evidence)


async def judge(prepared: Prepared, place: Place, store: Lake, patch: str) -> Judged:
    """Run the tests with a patch. Return the verdict on it."""
    is_empty = not patch.strip()
    if prepared.checks is None:
        reason = "nothing was changed" if is_empty else "no verification was asked for"
        return Judged("not_tested", reason, dict(NO_EVIDENCE))
    base = await _verify_base(prepared, place, store)
    if is_empty:
        return Judged("not_tested", "nothing was changed", NO_EVIDENCE | {"before": base["tests"]})
    results = await result_of(verify_patch, store, prepared.instance, place, prepared.checks, patch)
    return verification.judge_results(base, results, prepared.checks.suites)


def _choose(prepared: Prepared, row: Row, candidates: list[CandidatePatch], store: Lake) -> Row:
    """Write the best patch into the row of the job. Return the new row."""
    # An arm that ends its work without a change has answered a question, or run tests.
    answers = [each for each in candidates if each.attempt["outcome"] == "submitted"]
    best = verification.choose_best(candidates) or next(iter(answers), None)
    row = rows.update(store, row, **sum_totals([patch.attempt for patch in candidates]))
    if best is None:
        details = "; ".join(f"{patch.arm}: {patch.attempt['outcome']}" for patch in candidates)
        raise GateFailed(f"no arm left a patch or an answer ({details})")
    row = rows.update(
        store,
        row,
        verdict=best.verdict,
        reason=best.reason,
        verification=best.evidence,
        arm=best.arm,
        attempt_id=best.attempt["attempt_id"],
        patch=best.patch,
    )
    if best.verdict == "regressed":
        raise GateFailed(
            f"the best patch breaks tests and is not published: {best.reason}; "
            f"`durabench job show {prepared.request.job_id} --patch` prints it"
        )
    return row


def sum_totals(attempts: list[Row]) -> Row:
    """Return the sums over attempts or jobs; None if a summand is unknown, also in part."""
    names = ("cost_usd", "billed_usd", "input_tokens", "output_tokens")
    columns = {name: [attempt[name] for attempt in attempts] for name in names}
    if any(attempt.get("unpriced_calls") for attempt in attempts):
        columns["cost_usd"].append(None)
    return {name: None if None in column else sum(column) for name, column in columns.items()}


async def publish_report(row: Row, store: Lake) -> None:
    """Publish the report of a job as artifacts of the flow run."""
    if row["patch"] is None:
        return
    lake_id = await asyncio.to_thread(journals.lake_id, store)
    await patiently(
        acreate_markdown_artifact,
        markdown=body.body(row, ""),
        key=artifact_key("job", row["job_id"], lake_id),
        description=f"job {row['job_id']}: {quote_text(row['title'])} "
        f"({patch_sha256(row['patch'])[:12]})",
    )
    if row["pull_request"]:
        await patiently(
            acreate_link_artifact,
            link=row["pull_request"],
            link_text=quote_text(row["title"]),
            key=artifact_key("pull-request", row["job_id"], lake_id),
            description=f"job {row['job_id']}",
        )


def summarize(row: Row) -> str:
    if row["verdict"] is None:
        return f"{row['state']} · {row['detail']}"
    where = row["pull_request"] or row["branch"] or "patch"
    verdict = rows.say_verdict(row["verdict"])
    return " · ".join(filter(None, [row["state"], verdict, where, tell_automation(row["patch"])]))
