"""A cell: experiment × arm × instance × repeat, the unit that is cached and retried.

Its test runner contains no names of tests. The script that grades a row runs the hidden tests, and
often names them, so only the program and options that cannot name a test are copied from it.
"""

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from agent.arms.options import ArmOptions
from agent.runners import TestRunner, runner_of
from agent.types import Task
from agent.workspaces import Environment, ResourceLimits
from eval import audit
from eval.digests import canonical_digest
from eval.grading import grading_key
from eval.types import Instance, Phase
from flows.experiments import resources
from flows.experiments.arms import ArmSpec
from flows.experiments.declaration import Experiment
from flows.experiments.resources import Resources


@dataclass(frozen=True)
class Place:
    """Environment and image in which an instance is solved and graded."""

    environment: Environment
    image_digest: str | None = None
    """Image id in the daemon; None on the host, and until the image is available locally."""
    network: bool = False
    """True if a container may use the network. A host workspace always can."""
    resources: Resources = field(default_factory=Resources)
    """The declared limits of containers."""
    problem: str = ""
    """Reason why the image is unavailable; used as the error when a workspace is opened."""

    def has_network(self, instance: Instance, phase: Phase) -> bool:
        """Return True if a container of an instance may use the network in a phase."""
        return self.network and phase not in instance.offline

    def limits(self, instance: Instance) -> ResourceLimits | None:
        """Return the limits of an instance's containers; None on the host, which has none."""
        return self.resources.of(instance) if self.environment == "docker" else None


@dataclass(frozen=True)
class EarlierAttempt:
    """An attempt of an earlier run at a cell."""

    key: str
    spec: str
    """Its agent and environment as the journal has them, JSON text."""


@dataclass(frozen=True)
class Cell:
    """One cell of a plan."""

    experiment: Experiment
    arm: ArmSpec
    instance: Instance
    repeat: int
    place: Place
    earlier: Mapping[str, EarlierAttempt] = field(default_factory=dict)
    """By arm, the attempts that the cell and its bases continue (`flows.experiments.earlier`)."""

    @property
    def label(self) -> str:
        """Display name of the cell in logs, run names and tables."""
        suffix = f" #{self.repeat}" if self.experiment.repeats > 1 else ""
        return f"{self.arm.name} · {self.instance.instance_id}{suffix}"

    @property
    def partition(self) -> tuple[str, str]:
        """Experiment and arm: the folder of the cell's rows in every table."""
        return self.experiment.name, self.arm.name

    @property
    def base(self) -> "Cell | None":
        """The cell whose steps answer this one's where nothing differs, or None."""
        name = self.arm.base
        return None if name is None else replace(self, arm=self.experiment.arm(name))

    @property
    def seed(self) -> int:
        """Seed of the attempt, independent of other arms, instances and repeats.

        A derived arm has the seed of its base: a simulated conversation needs one seed throughout.
        """
        if self.base is not None:
            return self.base.seed
        parts = [self.experiment.seed, self.arm.name, self.instance.instance_id, self.repeat]
        return int(canonical_digest(parts)[:12], 16)

    @property
    def order_in_instance(self) -> int:
        """Position of the arm in the order in which the arms start the instance, from 0."""
        ordered = in_order(self.experiment, self.instance, self.repeat)
        return [arm.name for arm in ordered].index(self.arm.name)

    @property
    def options(self) -> ArmOptions:
        """The options of the arm. Where they set no limit of time, the task's own counts."""
        options, limit_s = self.arm.options, self.instance.work_limit_s
        if limit_s is None or options.time_limit_s is not None:
            return options
        return options.model_copy(update={"time_limit_s": limit_s})

    def at(self, place: Place) -> "Cell":
        """Return the same cell with another place."""
        return replace(self, place=place)

    @property
    def task(self) -> Task:
        """The instance as a task for the agent."""
        return Task(
            id=self.instance.instance_id,
            statement=self.instance.problem_statement,
            base_commit=self.instance.base_commit,
            reference_patch=self.instance.patch,
            reference_script=self.instance.solution,
            runner=runner_of_instance(self.instance),
            for_reviewers=not self.instance.has_hidden_tests,
        )


def derive_audit_key(verdict_key: str) -> str:
    """Return the key of the second grading, from the key of the first one."""
    return canonical_digest({"first": verdict_key, "audit": audit.PROCEDURE})


@dataclass(frozen=True)
class Submission:
    """A patch to be graded, from one of our attempts or from elsewhere."""

    experiment: str
    arm: str
    instance: Instance
    repeat: int
    attempt_id: str
    patch: str
    place: Place
    timeout_s: float
    """Seconds for the evaluation script."""
    grading: int = 0
    """Number of the grading of a reference patch, which is graded anew in each repeat."""

    def at(self, place: Place) -> "Submission":
        """Return the same patch with another place."""
        return replace(self, place=place)

    @cached_property
    def verdict_key(self) -> str:
        """Key of the grading: exactly the inputs that determine a verdict in `eval.grading`.

        The author of the patch is left out: attempts with the same patch share a verdict, across
        all experiments of the lake.
        """
        place = self.place
        key = grading_key(
            self.instance,
            place.image_digest or "",
            self.patch,
            self.timeout_s,
            f"{place.environment} with network" if place.network else place.environment,
            resources.in_key(place.limits(self.instance)),
        )
        return canonical_digest({"verdict": key, "grading": self.grading}) if self.grading else key

    @cached_property
    def audit_key(self) -> str:
        """Key of a second grading: the key of the first, plus the rules of the audit."""
        return derive_audit_key(self.verdict_key)

    @property
    def label(self) -> str:
        """Display name of the grading."""
        return f"grade {self.arm} · {self.instance.instance_id}"


def in_order(experiment: Experiment, instance: Instance, repeat: int) -> list[ArmSpec]:
    """Return the arms in the order in which they start an instance.

    The order is random, and the same for the same seed. Adding an arm does not change the order of
    the others. Drift of a provider during an instance then favours no arm. Derived arms come after
    all others, because they need an attempt of their base.
    """

    def draw(arm: ArmSpec) -> tuple[int, str]:
        parts = ["order", experiment.seed, instance.instance_id, repeat, arm.name]
        return len(experiment.bases(arm)), canonical_digest(parts)

    return sorted(experiment.arms, key=draw)


def plan(experiment: Experiment, instances: list[Instance], place: Place) -> list[Cell]:
    """Return every cell of an experiment, instance by instance, so that pairs finish together.

    The arms of an instance are in a random order.

    All instances get their first attempt before any gets a second, so that a run stopped by a
    budget covers as many instances as possible. With a limit on images, the repeats of an instance
    are consecutive instead; otherwise every image would be pulled or built once per repeat. They
    are also consecutive if the experiment can end early, because evidence counts instances with
    all their repeats.
    """
    rounds = [(repeat, i) for repeat in range(experiment.repeats) for i in instances]
    if experiment.images.keep_gb is not None or experiment.stop_when is not None:
        rounds = [(repeat, i) for i in instances for repeat in range(experiment.repeats)]
    return [
        Cell(experiment, arm, instance, repeat, place)
        for repeat, instance in rounds
        for arm in in_order(experiment, instance, repeat)
    ]


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
_NOT_RUNNERS = {"(", ")", "{", "}", "set", "cd", "cat", "echo"}
_REPORTER_OPTIONS = {
    **dict.fromkeys(("--workspace", "--all-features", "--release", "--locked"), False),
    **dict.fromkeys(("--offline", "-race"), False),
    **dict.fromkeys(("-mod", "-tags", "--features", "--test-dir"), True),
}
_SUBCOMMANDS = {
    "test",
    "--test",
    "run",
    "exec",
    "jest",
    "mocha",
    "vitest",
    "karma",
    "phpunit",
    "rspec",
}


def runner_of_instance(instance: Instance) -> TestRunner:
    """Return the runner of the repository, from the script that grades the row.

    Scripts of hidden tests do more than run tests, so that only known programs in them count.
    """
    default = runner_of(f"pytest {_PYTEST_REPORT} {{paths}}")
    if instance.rules and instance.rules.kind in ("reward", "program"):
        found = _list_runners(str(instance.row.get("run_script") or ""), ())
        return next((each for each in found if each.adapter != "summary"), default)
    # Here-documents hold the hidden tests.
    here_document = r"<<'?(\w+)'?\n.*?^\1$"
    script = re.sub(here_document, "", instance.eval_script, flags=re.DOTALL | re.MULTILINE)
    tests = _TESTS.search(script)
    if tests is None:
        return default
    exports = _EXPORT.finditer(script[: tests.start()])
    environment = tuple((match["name"], match["value"]) for match in exports)
    runners = _list_runners(tests["commands"], environment)
    observed = [runner for runner in runners if runner.adapter != "summary"]
    if not observed and (whole := instance.row.get("whole_test_command")):
        return runner_of(str(whole))
    return next(iter(observed or runners), runner_of("false {paths}", environment))


def _list_runners(commands: str, environment: tuple[tuple[str, str], ...]) -> list[TestRunner]:
    return [
        runner_of(command, environment)
        for line in commands.splitlines()
        if (command := _template(line))
    ]


def _template(line: str) -> str:
    """Return a command with `{paths}` in place of its tests, or '' if the line is not a command."""
    try:
        words = shlex.split(line)
    except ValueError:
        return ""
    assignments = []
    while words and (assignment := _ASSIGNMENT.fullmatch(words[0])):
        assignments.append(f"{assignment['name']}={shlex.quote(assignment['value'])}")
        words = words[1:]
    if not words or words[0] in _NOT_RUNNERS or "$" in words[0]:
        return ""
    return " ".join([*assignments, *_program(words[0], words[1:]), "{paths}"])


def _program(program: str, words: Sequence[str]) -> Iterator[str]:
    """Yield the program and the options that name no tests."""
    if [program, *words[:1]] == ["bundle", "exec"] and words[1:]:
        yield from (program, "exec")
        program, words = words[1], words[2:]
    name = program.rpartition("/")[2]
    if name.startswith("python") and "-m" in words[:-1]:
        at = words.index("-m")
        name, words = words[at + 1], words[at + 2 :]
        yield from ("python", "-m", name)
    elif name == "tox" and "--current-env" in words:  # it runs pytest, in the same environment
        name, words = "pytest", ()
        yield from ("python", "-m", "pytest")
    elif name in ("pytest", "py.test"):
        name = "pytest"
        yield name
    else:
        yield program
    match name:
        case "pytest":
            yield _PYTEST_REPORT
            yield from _select_options(words, _PYTEST_OPTIONS)
        case "unittest":
            yield "-v"
        case "runtests.py":
            yield from _select_options(words, _DJANGO_OPTIONS)
        case "test":
            yield from _select_options(words, _SYMPY_OPTIONS)
        case _:
            yield from (word for word in words[:1] if word in _SUBCOMMANDS)
            yield from _select_options(words, _REPORTER_OPTIONS)


def _select_options(words: Sequence[str], options: dict[str, bool]) -> Iterator[str]:
    """Yield the listed options with their values. All other words can name tests."""
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
