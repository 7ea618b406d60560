"""Each row gets the test runner of its repository, and the runner reveals no hidden test."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from agent.runners import get_arguments
from eval import harness
from eval.instances import load
from eval.types import Instance, OwnRules
from flows.experiments import cells as experiment_cells
from flows.experiments.cells import runner_of_instance

PYTEST = "pytest -q -rfE -p no:cacheprovider {paths}"
DJANGO = "./tests/runtests.py --verbosity=2 --settings=test_sqlite --parallel=1 {paths}"
SYMPY = "PYTHONWARNINGS=ignore::UserWarning,ignore::SyntaxWarning bin/test -C --verbose {paths}"
RSPEC = 'rspec --format progress --format json --out "$durabench_report" {paths}'
JEST = f"npx jest {get_arguments('jest')} {{paths}}"
OTHERS = {
    "django/django": (DJANGO, "unittest"),
    "sympy/sympy": (SYMPY, "sympy"),
    "sphinx-doc/sphinx": (f"python -m {PYTEST}", "pytest"),  # the script runs it through tox
}
VARIABLES = {
    ("LANG", "en_US.UTF-8"),
    ("LC_ALL", "en_US.UTF-8"),
    ("LANGUAGE", "en_US:en"),
    ("PYTHONIOENCODING", "utf8"),
    ("SETUPTOOLS_USE_DISTUTILS", "stdlib"),
}


@pytest.mark.parametrize("name", ["verified_test", "lite_test", "lite_dev"])
def test_runners_of_real_rows(shared_data: Path, name: str) -> None:
    """Rows of one repository have the same command, and it contains no name of a hidden test."""
    for instance in load(str(shared_data / "swebench" / f"{name}.parquet")):
        runner = runner_of_instance(instance)
        expected = OTHERS.get(instance.repo, (PYTEST, "pytest"))
        assert (runner.command, runner.adapter) == expected, instance.instance_id
        assert set(runner.environment) <= VARIABLES
        told = f"{runner.command} {runner.environment}"
        assert not [name for name in hidden_names(instance) if name in told]


def hidden_names(instance: Instance) -> set[str]:
    """Return the paths, labels and functions of a row's tests."""
    files = set(re.findall(r"^diff --git a/\S+ b/(\S+)$", instance.test_patch, re.MULTILINE))
    labels = {path.removeprefix("tests/").removesuffix(".py").replace("/", ".") for path in files}
    tests = {*instance.fail_to_pass, *instance.pass_to_pass}
    of_the_runner = {"tests/runtests.py", "runtests"}  # a file that one test patch changes
    return (files | labels | {name for name in tests if len(name) > 12}) - of_the_runner


@pytest.fixture(scope="module")
def instance() -> Instance:
    """Return an arbitrary row."""
    return load("bundled")[0]


@pytest.mark.parametrize(
    ("line", "command"),
    [
        ("pytest --deselect tests/test_secret.py::test_x -k secret tests/test_secret.py", PYTEST),
        ("pytest -W error tests/test_secret.py", PYTEST.replace(" {", " -W error {")),
        (
            "/usr/bin/python3.9 -m pytest -W error tests/test_secret.py",
            f"python -m {PYTEST.replace(' {', ' -W error {')}",
        ),
        ("python -m unittest tests.test_secret", "python -m unittest -v {paths}"),
        (
            "./tests/runtests.py secret.tests --parallel 1",
            "./tests/runtests.py --parallel=1 {paths}",
        ),
        ("bin/test -C -k secret sympy/secret.py", "bin/test -C {paths}"),
        ("tox -epy39 -- tests/test_secret.py", "tox {paths}"),
        ("npx jest packages/secret.test.js -t secret", JEST),
        ("cargo test secret --no-fail-fast", "cargo test --no-fail-fast {paths}"),
        ("go test -v -tags slow ./secret", "go test -json -tags slow {paths}"),
        ("mvn test -Dtest=Secret", "mvn --batch-mode test {paths}"),
        ("bundle exec rspec spec/secret_spec.rb -e secret", f"bundle exec {RSPEC}"),
        ("A=tests/test_secret.py pytest 'unclosed", "false {paths}"),
        ("", "false {paths}"),
    ],
)
def test_a_runner_contains_nothing_that_could_name_a_test(
    instance: Instance, line: str, command: str
) -> None:
    """Only the program and options that cannot name a test are taken from a script."""
    start, end = harness.log_markers()
    patch = f"git apply - <<'EOF_1'\nexport SECRET=1\n: '{start}'\n+secret\nEOF_1\n"
    script = f"export LANG=C\n{patch}: '{start}'\n{line}\n: '{end}'\n"
    runner = runner_of_instance(replace(instance, eval_script=script))
    assert (runner.command, runner.environment) == (command, (("LANG", "C"),))


@pytest.mark.parametrize(
    ("script", "command"),
    [
        ("run() {\n  NODE_ENV=test npx jest -t secret $1 2>&1\n}\nrun", f"NODE_ENV=test {JEST}"),
        ("apt-get update\ngo test -v ./secret", "go test -json {paths}"),
        ("uvx -w pytest pytest /tests/test_secret.py", PYTEST),
        ("if true; then\n./secret 'unclosed\nfi", PYTEST),
    ],
)
def test_a_hidden_script_shows_a_known_runner(
    instance: Instance, script: str, command: str
) -> None:
    """Without one, pytest is assumed."""
    hidden = replace(instance, rules=OwnRules("program"), row={"run_script": script})
    assert runner_of_instance(hidden).command == command


def test_the_markers_are_swebenchs() -> None:
    """The pattern contains swebench's markers, copied because swebench takes seconds to import."""
    start, end = harness.log_markers()
    assert start in experiment_cells._TESTS.pattern
    assert end in experiment_cells._TESTS.pattern
