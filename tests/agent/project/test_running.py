"""The real test programs of this machine, in host workspaces."""

import shlex
import shutil
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from agent.project import Folder, custom, detect, run_suite
from agent.project.suites import Suite
from agent.tools import TestRun
from agent.workspaces import HostWorkspace
from tests.agent.repositories import with_files

pytestmark = pytest.mark.slow

UNITTEST = """\
import unittest
class A(unittest.TestCase):
    def test_good(self): pass
    def test_bad(self): self.fail()
"""
NODE = """\
const {test} = require('node:test');
test('good', () => {});
test('bad', () => { throw new Error('x'); });
"""
RUST = """\
#[test] fn good() {}
#[test] fn bad() { panic!() }
"""
GO = """\
package a
import "testing"
func TestGood(t *testing.T) {}
func TestBad(t *testing.T) { t.Error("x") }
"""
CARGO = '[package]\nname = "a"\nversion = "0.1.0"\nedition = "2021"\n'
RUSTUP = f"RUSTUP_HOME={home}" if (home := Path.home() / ".rustup").is_dir() else ""
"""The setting of a cargo that rustup installed, because a host workspace has its own home."""

MANIFEST = '{"scripts": {"test": "node --test"}}'

PROJECTS = {
    "pytest": {"conftest.py": "", "test_a.py": "def test_good(): pass\ndef test_bad(): assert 0\n"},
    "unittest": {"test_a.py": UNITTEST},
    "node": {"package.json": MANIFEST, "a.test.js": NODE},
    "cargo": {"Cargo.toml": CARGO, "src/lib.rs": RUST},
    "go": {"go.mod": "module example.org/a\n\ngo 1.19\n", "a_test.go": GO},
}


async def run(files: Mapping[str, str], folder: Path, suite: Suite | None = None) -> TestRun:
    """Return a run of the detected or the given suite in a new workspace with these files."""
    prepare = with_files(files)
    if suite is None:
        prepare(folder)
        project = detect(Folder(folder))
        assert project is not None
        suite = project.tests
        assert suite is not None
        if suite.results == "cargo":
            suite = replace(suite, command=f"{RUSTUP} {suite.command}")
    workspace = await HostWorkspace.open(prepare=prepare, base_commit="HEAD")
    try:
        return await run_suite(workspace, suite, 120)
    finally:
        await workspace.close()


@pytest.mark.parametrize("name", PROJECTS)
async def test_a_detected_suite_names_its_tests(name: str, tmp_path: Path) -> None:
    """The passed and the failed test are distinguished, and the exit code agrees."""
    program = {"node": "node", "cargo": "cargo", "go": "go"}.get(name, sys.executable)
    if shutil.which(program) is None:
        pytest.skip(f"{program} is not on this machine")
    done = await run(PROJECTS[name], tmp_path / "files")
    assert done.problem == ""
    assert done.exit_code != 0
    assert [name for name in done.passed if "good" in name.lower()]
    assert [name for name in (*done.failed, *done.errors) if "bad" in name.lower()]
    assert len(done.passed) == len(done.failed) + len(done.errors) == 1


async def test_a_suite_that_does_not_run_proves_nothing(tmp_path: Path) -> None:
    """Without a report, and with an exit code of 0, there is a problem and no pass."""
    suite = Suite("node --test", "true >$durabench_report", "tap")
    done = await run({"a": ""}, tmp_path, suite)
    assert done.problem == "the output has no TAP plan (exit code 0)"


async def test_an_old_mocha_prints_its_report(tmp_path: Path) -> None:
    """As mocha 8.1.1 does, behind what tests print and before what npm adds."""
    report = '{\n  "stats": {\n    "suites": 1\n  },\n  "passes": [{"fullTitle": "sum good"}],\n'
    report += '  "failures": [{"fullTitle": "sum bad"}]\n}'
    printed = f"> mocha --reporter json\n{{noise}}\n{report}\nnpm ERR! Test failed.\n"
    command = f"printf '%s' {shlex.quote(printed)}; : $durabench_report; (exit 1)"
    done = await run({"a": ""}, tmp_path, Suite("mocha", command, "mocha"))
    assert (done.passed, done.failed, done.problem) == ([" sum good"], [" sum bad"], "")


async def test_a_report_cannot_contradict_the_exit_code(tmp_path: Path) -> None:
    """A program that fails without a failed test is no pass."""
    text = "'TAP version 13\\nok 1 - a\\n1..1\\n'"
    suite = Suite("node --test", f"printf {text} >$durabench_report; (exit 3)", "tap")
    done = await run({"a": ""}, tmp_path, suite)
    assert done.problem == "the exit code is 3, although no test failed"


async def test_a_custom_command_of_a_known_runner_is_observed(tmp_path: Path) -> None:
    """Its tests are named, and code that ends the process with 0 is no pass."""
    files = {"test_a.py": "def test_good(): pass", "test_b.py": "import os\nos._exit(0)"}
    chosen = await run(files, tmp_path / "chosen", custom("python -m pytest -q test_a.py"))
    assert (chosen.exit_code, chosen.passed, chosen.problem) == (0, ["test_a.py::test_good"], "")
    ended = await run(files, tmp_path / "ended", custom("pytest -q"))
    assert (ended.exit_code, ended.passed) == (0, [])
    assert ended.problem


def test_a_custom_command_takes_no_further_tests() -> None:
    """It may choose tests, so an arm that runs it gets all of those."""
    assert not custom("pytest tests/unit").runner.takes_paths


async def test_of_a_custom_command_the_exit_code_counts(tmp_path: Path) -> None:
    """No tests are named, and the exit code is the command's own."""
    done = await run({"a": ""}, tmp_path, custom("echo 'test a ... ok'; exit 7"))
    assert (done.exit_code, done.passed, done.problem) == (7, [], "")
