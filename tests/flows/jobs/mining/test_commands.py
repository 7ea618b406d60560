"""Which tests of a repository run for a change."""

import json
from pathlib import Path

import pytest

from agent.project import Folder, detect
from flows.jobs.mining.commands import AUTO, LoggedTests, choose_suite, choose_tests

FILES = {
    "py/pyproject.toml": "[project]\nname = 'a'\n[tool.pytest.ini_options]\n",
    "py/tests/test_a.py": "def test_a():\n    assert True\n",
    "js/package.json": json.dumps({"scripts": {"test": "node --test"}}),
    "js/a.test.js": "",
    "tools/go.mod": "module tools\n",
    "tools/run/a_test.go": "package run\n",
}


@pytest.mark.parametrize(
    ("changed", "command"),
    [
        (["py/tests/test_a.py"], "python -m pytest"),
        (["js/a.test.js"], "cd js && NODE_OPTIONS="),
        (["tools/run/a_test.go"], "cd tools && go test -v ./run"),
        (["elsewhere/test_b.rb"], "python -m pytest"),
    ],
)
def test_the_tests_of_the_changed_project_run(
    tmp_path: Path, changed: list[str], command: str
) -> None:
    """A repository can have projects in several languages."""
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    project = detect(Folder(tmp_path))
    assert project is not None
    chosen = choose_tests(choose_suite(project, changed), AUTO, changed)
    assert isinstance(chosen, LoggedTests)
    assert chosen.command.startswith(command)
