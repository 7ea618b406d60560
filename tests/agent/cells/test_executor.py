"""Steps of Python in this process, compared with plain Python."""

import contextlib
import io

import pytest

from agent import Executor, diagnose, generate_patch

STEPS = {
    "helper": "def area(side):\n    return power(side) * scale\n",
    "power": "def power(x):\n    return x**2\n",
    "scale": "import math\nscale = 1",
    "list": "sides = [1, 2]",
    "grow": "sides.append(3)",
    "total": "total = sum(map(area, sides))",
    "print": "print(total, math.floor(2.5), [area(side) for side in sides])",
}


def run_plainly(steps: dict[str, str]) -> str:
    """Return what the steps print in plain Python."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec("\n".join(steps.values()), {})
    return printed.getvalue()


@pytest.mark.parametrize(
    ("step", "source"),
    [
        ("helper", "def area(side):\n    return power(side) + scale\n"),
        ("power", "def power(x):\n    return -x\n"),
        ("scale", "import math\nscale = 10"),
        ("list", "sides = []"),
        ("grow", "sides.insert(0, 7)"),
    ],
)
def test_a_replay_equals_a_run_of_all_steps(step: str, source: str) -> None:
    """Functions see what later steps define, and each step runs on what those before it left."""
    executor = Executor()
    for name, text in STEPS.items():
        assert executor.execute(name, text).error is None
    assert executor.results["print"].output == run_plainly(STEPS)
    executor.execute(step, source)
    assert executor.graph.get_node("print").state == "stale"
    executor.replay_from(step)
    assert executor.results["print"].output == run_plainly({**STEPS, step: source})
    assert executor.graph.get_node("print").state == "executed"


def test_a_failed_step_is_explained() -> None:
    """An interrupted one counts as not run."""
    executor = Executor()
    executor.execute("one", "total = 5")
    failed = executor.execute("two", "print(totl)")
    assert (failed.success, type(failed.error)) == (False, NameError)
    explained = diagnose(executor, "two")
    assert explained is not None
    assert explained.repair == "Was `total` meant?"
    assert "+print(total)" in generate_patch(executor, "two")
    assert diagnose(executor, "one") is None
    with pytest.raises(KeyboardInterrupt):
        executor.execute("three", "raise KeyboardInterrupt")
    with pytest.raises(SyntaxError):
        executor.execute("four", "x =")
    assert [*executor.sources] == ["one", "two"]
    assert executor.graph.get_node("two").state == "failed"
