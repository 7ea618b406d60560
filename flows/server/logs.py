"""Records for the Logs tab of flow runs and task runs in Prefect's UI.

They show the work of cells, and all that `say` prints during a flow run. A step is one short
record. The journal has it in full, and `durabench trace` shows it. A private server gets no records
of steps: its runs cannot be watched, and the records took a tenth of the processor time of a run.
"""

import logging
import sys
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from agent.session.steps import Step
from eval.audit import AuditedVerdict
from eval.types import Evaluation
from flows.display import steps
from flows.display.terminal import fit, listen
from flows.server.api import is_private
from flows.storage.lake import Row
from reports.values import in_line

if TYPE_CHECKING:
    Log = logging.Logger | logging.LoggerAdapter[logging.Logger]

WIDTH = 160
"""Columns of a step or of a reason in a record."""

_NOWHERE = logging.Logger("nowhere", logging.CRITICAL + 1)


def run_log() -> "Log":
    """Return the logger of the current flow run or its task run; without a flow run, a silent one.

    Prefect keeps records of flow runs only, and warns of others.
    """
    if "prefect" not in sys.modules:  # a command without a flow run does not load it for this
        return _NOWHERE
    from prefect.context import FlowRunContext
    from prefect.logging import get_run_logger

    return _NOWHERE if FlowRunContext.get() is None else get_run_logger()


listen(lambda line: run_log().info("%s", line))


def step_log() -> Callable[[Step], None]:
    """Return a callback that logs a step in the current run.

    Steps that an earlier run recorded are in the log of that run.
    """
    log = _NOWHERE if is_private() else run_log()

    def write(step: Step) -> None:
        if not step.replayed and log.isEnabledFor(logging.INFO):
            log.info("%s", steps.entry(steps.of_step(step), WIDTH))

    return write


def attempt_line(row: Row, recorded_steps: int) -> str:
    """Return how an attempt ended or was interrupted, from its row of `attempts`."""
    from reports.format import plural

    reason = f" ({_brief(row['detail'])})" if row["detail"] else ""
    parts = [f"{row['outcome']}{reason}", plural(recorded_steps, "step"), *bill(row)]
    return ", ".join([*parts, f"{row['duration_s']:.1f} s"])


def brief(result: str, row: Row) -> str:
    """Return a result with the bill of its attempt: `resolved · 11 calls · $0.035`."""
    return " · ".join([result, *bill(row)])


def bill(row: Row) -> list[str]:
    """Return the calls of an attempt and their cost; an empty list if it made none."""
    from reports.format import plural, usd

    if not row["model_calls"]:
        return []
    cost = row["cost_usd"]
    amount = "cost unknown" if cost is None else usd(cost, at_least=row["unpriced_calls"] > 0)
    return [plural(row["model_calls"], "call"), amount]


def verdict_line(evaluation: Evaluation, audited: AuditedVerdict, doubts: Iterable[object]) -> str:
    """Return a verdict with its reason, its tests and the doubts of the audit."""
    reason = f" ({_brief(evaluation.reason)})" if evaluation.reason else ""
    parts = [f"{evaluation.outcome}{reason}"]
    for name, passed, failed in (
        ("fail-to-pass", evaluation.fail_to_pass_success, evaluation.fail_to_pass_failure),
        ("pass-to-pass", evaluation.pass_to_pass_success, evaluation.pass_to_pass_failure),
    ):
        if passed or failed:
            parts.append(f"{name} {len(passed)} of {len(passed) + len(failed)}")
    if doubted := "; ".join(map(str, doubts)):
        parts.append(f"audit: {audited}, {_brief(doubted)}")
    return ", ".join(parts)


def _brief(text: str) -> str:
    return fit(in_line(text), WIDTH)
