"""The test runner of a SWE-bench row, without the names of its tests.

The script that grades a row runs the hidden tests, and often names them. An agent must not see
those names, so nothing but the program and options that are known to name no test are taken.
"""

import re
import shlex
from collections.abc import Callable, Iterator, Sequence

from agent.runners import TestRunner, runner_of
from eval.types import Instance

_TESTS = re.compile(
    r">>>>> Start Test Output'?\n(?P<commands>.*?)\n[^\n]*>>>>> End Test Output", re.DOTALL
)
_EXPORT = re.compile(r"^export (?P<name>[A-Za-z_]\w*)=(?P<value>[\w.:,@+-]*)$", re.MULTILINE)
_ASSIGNMENT = re.compile(r"(?P<name>[A-Za-z_]\w*)=(?P<value>[\w.:,@+-]*)")
_VALUE = re.compile(r"[\w.:=]+")

_PYTEST_REPORT = "-q -rfE -p no:cacheprovider"
_DJANGO_OPTIONS = {"--verbosity": True, "--settings": True, "--parallel": True}
_SYMPY_OPTIONS = {"-C": False, "--verbose": False}
_PYTEST_OPTIONS = {"-W": True}
_SUBCOMMANDS = {"test", "run", "exec", "jest", "mocha", "vitest", "karma", "phpunit", "rspec"}


def runner_of_instance(instance: Instance) -> TestRunner:
    """Return the runner of the repository, from the script that grades the row."""
    script = _without_patches(instance.eval_script)
    found = _TESTS.search(script)
    if found is None:
        return runner_of(f"pytest {_PYTEST_REPORT} {{paths}}")
    exported = tuple(match.groups() for match in _EXPORT.finditer(script[: found.start()]))
    environment = tuple((name, value) for name, value in exported)
    runners = [
        runner_of(command, environment)
        for line in found["commands"].splitlines()
        if (command := _template(line))
    ]
    observed = [runner for runner in runners if runner.adapter != "summary"]
    if not observed and (whole := instance.row.get("whole_test_command")):
        return TestRunner(str(whole))
    return next(iter(observed or runners), runner_of("false {paths}", environment))


def _without_patches(script: str) -> str:
    """Return a script without its here-documents, which hold the hidden tests."""
    return re.sub(r"<<'?(\w+)'?\n.*?^\1$", "", script, flags=re.DOTALL | re.MULTILINE)


def _template(line: str) -> str:
    """Return a command with `{paths}` in place of its tests, or '' if it is no command."""
    try:
        words = shlex.split(line)
    except ValueError:
        return ""
    assignments = []
    while words and (assigned := _ASSIGNMENT.fullmatch(words[0])):
        assignments.append(f"{assigned['name']}={shlex.quote(assigned['value'])}")
        words = words[1:]
    if not words:
        return ""
    return " ".join([*assignments, *_program(words[0], words[1:]), "{paths}"])


def _program(program: str, rest: Sequence[str]) -> Iterator[str]:
    """Yield the program and the options that name no tests."""
    name = program.rpartition("/")[2]
    if name.startswith("python") and "-m" in rest[:-1]:
        at = rest.index("-m")
        yield from ("python", "-m", rest[at + 1])
        yield from _options_of(rest[at + 1])(rest[at + 2 :])
    elif name == "tox" and "--current-env" in rest:  # it runs pytest, in the same environment
        yield from ("python", "-m", "pytest", _PYTEST_REPORT)
    elif name in ("pytest", "py.test"):
        yield from ("pytest", *_options_of("pytest")(rest))
    else:
        yield program
        yield from _options_of(name)(rest)


def _options_of(program: str) -> Callable[[Sequence[str]], Iterator[str]]:
    match program:
        case "pytest":
            return lambda words: iter((_PYTEST_REPORT, *_known(words, _PYTEST_OPTIONS)))
        case "unittest":
            return lambda words: iter(("-v",))
        case "runtests.py":
            return lambda words: _known(words, _DJANGO_OPTIONS)
        case "test":
            return lambda words: _known(words, _SYMPY_OPTIONS)
        case _:
            return lambda words: (word for word in words[:1] if word in _SUBCOMMANDS)


def _known(words: Sequence[str], options: dict[str, bool]) -> Iterator[str]:
    """Yield the options that are known, with their values. All else may name tests."""
    waiting = iter(words)
    for word in waiting:
        if word == "--":
            return
        name, has_value, value = word.partition("=")
        if name not in options:
            continue
        if options[name] and not has_value:
            value = next(waiting, "")
        if not options[name]:
            yield name
        elif _VALUE.fullmatch(value):
            yield from (f"{name}={value}",) if name.startswith("--") else (name, value)
