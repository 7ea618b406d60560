"""Runners that write a report, run on single test files with the real programs of this machine."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from agent.models.simulated.anchor import GO_FOLDER, render_anchor
from agent.runners import TestRunner, runner_of
from agent.tools import TestRun, ToolSettings, run_paths
from agent.workspaces import HostWorkspace
from tests.agent.repositories import with_files

pytestmark = pytest.mark.slow

HOMES = (
    ("RUSTUP_HOME", str(Path.home() / ".rustup")),
    ("GOCACHE", str(Path.home() / ".cache/go-build")),
)
CARGO = '[package]\nname = "a"\nversion = "0.1.0"\nedition = "2021"\n'
CMAKE = (
    "cmake_minimum_required(VERSION 3.20)\nproject(a NONE)\nenable_testing()\n"
    "add_test(NAME good COMMAND true)\nadd_test(NAME bad COMMAND false)\n"
)
GO = 'package a\nimport "testing"\nfunc Test%s(t *testing.T) { if %s { t.Error("no") } }\n'
NODE = "require('node:test').test('%s', () => require('node:assert').ok(%s));\n"
SPEC = 'RSpec.describe("A") { it("has one") { expect(%s).to eq 1 } }\n'

FILES = {
    "go": {
        "go.mod": "module example.org/a\n\ngo 1.19\n",
        "good_test.go": GO % ("Good", "false"),
        "bad_test.go": GO % ("Bad", "true"),
    },
    "node": {
        "test/good.test.js": NODE % ("good", "true"),
        "test/bad.test.js": NODE % ("bad", "false"),
    },
    "cargo": {
        "Cargo.toml": CARGO,
        "src/lib.rs": "",
        "tests/good.rs": "#[test] fn good() {}\n",
        "tests/bad.rs": "#[test] fn bad() { assert_eq!(1, 2) }\n",
    },
    "rspec": {
        "spec/good_spec.rb": SPEC % 1,
        "spec/bad_spec.rb": SPEC % 2,
    },
    "ctest": {"CMakeLists.txt": CMAKE},
}
COMMANDS = {
    "go": ("go test {paths}", "good_test.go", "bad_test.go"),
    "node": ("node --test {paths}", "test/good.test.js", "test/bad.test.js"),
    "cargo": ("cargo test {paths}", "tests/good.rs", "tests/bad.rs"),
    "rspec": ("rspec {paths}", "spec/good_spec.rb", "spec/bad_spec.rb"),
}


async def run(files: dict[str, str], runner: TestRunner, paths: list[str], first: str) -> TestRun:
    workspace = await HostWorkspace.open(prepare=with_files(files), base_commit="HEAD")
    try:
        await workspace.run(first, timeout_s=60)
        return await run_paths(workspace, ToolSettings(runner, test_timeout_s=120), paths)
    finally:
        await workspace.close()


def find_runner(program: str, command: str) -> TestRunner:
    if shutil.which(program) is None:
        pytest.skip(f"{program} is not on this machine")
    return replace(runner_of(command), environment=HOMES)


@pytest.mark.parametrize("program", COMMANDS)
async def test_a_run_of_a_file_is_of_its_tests_alone(program: str) -> None:
    """A failing test beside it is not run, and the results are reported, not observed."""
    command, good, bad = COMMANDS[program]
    runner = find_runner(program, command)
    for path, counts in ((good, (1, 0)), (bad, (0, 1))):
        done = await run(FILES[program], runner, [path], "true")
        assert (len(done.passed), len(done.failed)) == counts, done.output
        assert (done.problem, done.errors, done.reported, done.observed) == ("", [], True, False)
        assert all(f"FAILED {name}" in done.output for name in done.failed)


async def test_ctest_runs_all_tests() -> None:
    """Its report is XML of JUnit, and it takes no files."""
    runner = find_runner("ctest", "ctest --test-dir build")
    done = await run(FILES["ctest"], runner, [], "cmake -B build .")
    assert (runner.takes_paths, done.problem) == (False, "")
    assert [name.rpartition(".")[2] for name in done.passed] == ["good"]
    assert [name.rpartition(".")[2] for name in done.failed] == ["bad"]


@pytest.mark.parametrize(
    ("command", "path", "whole"),
    [
        (
            "mvn test {paths}",
            "core/src/test/java/a/ATest.java",
            "mvn --batch-mode test -Dtest=ATest",
        ),
        (
            "./gradlew test {paths}",
            "src/test/java/ATest.java",
            "./gradlew cleanTest test --tests ATest",
        ),
    ],
)
def test_java_names_tests_by_class(command: str, path: str, whole: str) -> None:
    """A test file is named by its class, and no other file is taken."""
    runner = runner_of(command)
    assert runner.shell_command([path]) == whole
    assert not runner.runs("src/test/resources/a.xml")


@pytest.mark.parametrize(
    ("program", "place"), [("go", f"{GO_FOLDER}/a_test.go"), ("node", "a.test.js")]
)
async def test_a_simulated_anchor_fails_until_the_change_is_there(program: str, place: str) -> None:
    """It looks for lines of a file, in the language of its path."""
    runner = find_runner(program, COMMANDS[program][0])
    language = "go" if program == "go" else "javascript"
    files = {**FILES[program], place: render_anchor(language, place, "a.txt", "has", ["x"], "")}
    before = await run({**files, "a.txt": "y\n"}, runner, [place], "true")
    after = await run({**files, "a.txt": "y\r\nx\r\n"}, runner, [place], "true")
    assert (len(before.failed), before.errors, before.problem) == (1, [], "")
    assert (after.passed, after.problem) == (before.failed, "")
