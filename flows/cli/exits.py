"""Exit codes, and errors as one line."""

import gc
import io
import logging
import sys
import traceback

import typer
from typer.core import TyperGroup

from agent.errors import InfrastructureError, Interrupted, InvalidSpec, LeaseHeld, MessageRefused
from eval.errors import DatasetError, ImageError, PredictionsError
from flows.display import terminal
from flows.display.errors import GateFailed, IncompleteRun, UsageError
from flows.operation import surroundings
from reports.errors import ReportError, UnreadableError

EXIT_GATE, EXIT_USAGE, EXIT_INFRASTRUCTURE = 1, 2, 3

_OPERATOR = (
    UsageError, DatasetError, PredictionsError, InvalidSpec, ReportError, MessageRefused
)  # fmt: skip
_INFRASTRUCTURE = (
    IncompleteRun, Interrupted, ImageError, InfrastructureError, LeaseHeld, UnreadableError
)  # fmt: skip


class OneLineErrors(TyperGroup):
    """Print operator errors, a line for each reason. Others are bugs and print a traceback."""

    def invoke(self, ctx: typer.Context) -> object:  # type: ignore[override]  # Typer's click
        # Imports create a million objects. With Python's own 700, the collector searches them again
        # and again, which takes a quarter of the time until the first request.
        gc.set_threshold(100_000)
        for stream in (sys.stdout, sys.stderr):  # models write texts that cannot be encoded
            if isinstance(stream, io.TextIOWrapper):
                stream.reconfigure(errors="backslashreplace")
        sys.excepthook = terminal.show_bug
        logging.lastResort = terminal.RecordHandler(logging.WARNING)
        terminal.begin()
        try:
            surroundings.prepare()
            return super().invoke(ctx)
        except GateFailed as error:
            raise _exit(error, EXIT_GATE) from error
        except _INFRASTRUCTURE as error:
            raise _exit(error, EXIT_INFRASTRUCTURE) from error
        except _OPERATOR as error:
            raise _exit(error, EXIT_USAGE) from error
        except KeyboardInterrupt as error:
            stopped = Interrupted("stopped; run the same command again to continue")
            raise _exit(stopped, EXIT_INFRASTRUCTURE) from error


def _exit(error: Exception, code: int) -> typer.Exit:
    for problem in error.args if isinstance(error, UsageError) else (error,):
        terminal.warn(f"durabench: {' '.join(str(problem).split())}")
    _release(error)
    return typer.Exit(code)


def _release(error: BaseException | None) -> None:
    """Clear the variables of an error's frames. DuckDB lists tables in them as leaked at exit."""
    while error is not None:
        traceback.clear_frames(error.__traceback__)
        error = error.__cause__ or error.__context__
