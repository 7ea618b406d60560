"""Timings of programs under test and their reasons, and time limits on a busy machine."""

import ast
import inspect
import time
from itertools import pairwise

from agent.timings import OperatorTimings, Timings, variable


def reasons(timings: type[OperatorTimings]) -> dict[str, str]:
    """Return the docstring of each field that a class declares and documents, by field."""
    [declaration] = ast.parse(inspect.getsource(timings)).body
    assert isinstance(declaration, ast.ClassDef)
    return {
        ast.unparse(field.target): ast.literal_eval(reason.value)
        for field, reason in pairwise(declaration.body)
        if isinstance(field, ast.AnnAssign) and isinstance(reason, ast.Expr)
    }


def as_variables(**seconds: float) -> dict[str, str]:
    """Return the environment variables of fields of `Timings`."""
    assert seconds.keys() <= Timings.model_fields.keys()
    return {variable(name): str(value) for name, value in seconds.items()}


def slowdown() -> float:
    """Return how much longer work takes now than with a processor of its own, at least 1.

    It works for 0.1 s.
    """
    began_at, before_s = time.monotonic(), time.thread_time()
    while (worked_s := time.thread_time() - before_s) < 0.1:
        pass
    return max((time.monotonic() - began_at) / worked_s, 1.0)
