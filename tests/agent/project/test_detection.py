"""Projects are detected from their files alone."""

from pathlib import Path

import pytest

from agent.project import Folder, Project, custom, detect

PYTEST = "python -m pytest -q -rfE -p no:cacheprovider"
NODE = {"package-lock.json": "{}", "index.js": ""}


def package(script: str, **more: str) -> dict[str, str]:
    """Return a package.json with this test script, beside other files."""
    return {"package.json": f'{{"scripts": {{"test": "{script}"}}}}', **NODE, **more}


@pytest.fixture
def project(tmp_path: Path, request: pytest.FixtureRequest) -> Project | None:
    """Return what is detected in a folder with the files of the parameter."""
    for name, text in request.param.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return detect(Folder(tmp_path))


@pytest.mark.parametrize(
    ("project", "command"),
    [
        ({"pyproject.toml": "[tool.pytest.ini_options]", "tests/test_a.py": ""}, PYTEST),
        ({"setup.cfg": "[tool:pytest]", "a.py": ""}, PYTEST),
        ({"tox.ini": "[testenv]\ncommands = pytest {posargs}", "a.py": ""}, PYTEST),
        ({"conftest.py": "", "Makefile": "test:\n\tpytest"}, PYTEST),
        ({"requirements-dev.txt": "pytest>=8", "test_a.py": ""}, PYTEST),
        ({"test_a.py": "def test_a():\n    assert 1"}, PYTEST),
        ({"setup.py": "", "tests/test_a.py": "import unittest"}, "python -m unittest -v"),
        (
            {"manage.py": "import django", "app/tests.py": "from django.test import TestCase"},
            "python manage.py test -v 2 --noinput",
        ),
        ({"tests/runtests.py": "", "django/__init__.py": ""}, "python tests/runtests.py"),
        (
            {"tox.ini": "[testenv]\ncommands = nose2", "setup.py": ""},
            "tox -q --skip-missing-interpreters true",
        ),
        (package("jest"), 'npm test -- --ci --json --outputFile="$durabench_report"'),
        (
            package("vitest", **{"pnpm-lock.yaml": ""}),
            'pnpm test --run --reporter=json --outputFile="$durabench_report"',
        ),
        (
            package("mocha", **{"yarn.lock": ""}),
            'yarn test --reporter json --reporter-option output="$durabench_report"',
        ),
        (
            package("node --test"),
            'NODE_OPTIONS="--test-reporter=tap --test-reporter-destination=$durabench_report" '
            "npm test",
        ),
        (package("tsc && jest"), "npm test"),
        ({"go.mod": "module a", "a.go": "", "a_test.go": ""}, "go test -json ./..."),
        ({"Cargo.toml": "[package]", "src/lib.rs": "#[test]"}, "cargo test --no-fail-fast"),
        (
            {"Cargo.toml": "[workspace]", "a/src/lib.rs": "#[tokio::test]"},
            "cargo test --workspace --no-fail-fast",
        ),
        ({"Makefile": "check: all\n", "a.c": ""}, "make check"),
    ],
    indirect=["project"],
)
def test_the_test_command_is_that_of_the_project(project: Project, command: str) -> None:
    """Settings, lock files, scripts and test files decide."""
    assert project.tests is not None
    assert project.tests.command == command


@pytest.mark.parametrize(
    "project",
    [
        {},
        {"README.md": "python -m pytest"},
        {"tests/data.json": "{}"},
        {"node_modules/a/package.json": '{"scripts": {"test": "jest"}}'},
    ],
    indirect=True,
)
def test_nothing_is_assumed(project: Project | None) -> None:
    """Without files of a known kind, nothing is detected."""
    assert project is None


@pytest.mark.parametrize(
    "project",
    [
        {"setup.py": "", "a.py": ""},
        {"package.json": '{"scripts": {"test": "echo \\"Error: no test specified\\" && exit 1"}}'},
        {"package.json": "no JSON"},
        {"go.mod": "module a", "a.go": ""},
        {"Cargo.toml": "[package]", "src/lib.rs": ""},
        {"Makefile": "all:\ntest := 1\n"},
    ],
    indirect=True,
)
def test_a_project_without_tests_has_no_test_command(project: Project) -> None:
    """A kind alone is no reason to claim that tests exist."""
    assert project.tests is None


@pytest.mark.parametrize(
    ("project", "install"),
    [
        (
            {
                "pyproject.toml": "[project]\noptional-dependencies = {dev = [], docs = []}\n"
                "[dependency-groups]\ntest = []",
                "requirements.txt": "",
            },
            "python -m pip install --upgrade 'pip>=25.1' && "
            "python -m pip install -r requirements.txt -e '.[dev]' --group test",
        ),
        ({"setup.py": "", "conftest.py": ""}, "python -m pip install -e . pytest"),
        (
            {
                "pyproject.toml": "[project]\noptional-dependencies = {test = []}\n"
                "[dependency-groups]\ndev = []",
                "uv.lock": "",
                "requirements.txt": "",
                "conftest.py": "",
            },
            "python -m pip install uv && uv export -q --frozen --no-hashes --extra test "
            '--group dev -o "${TMPDIR:-/tmp}/locked.txt" && '
            'python -m pip install -r "${TMPDIR:-/tmp}/locked.txt" pytest',
        ),
        ({"test_a.py": "def test_a(): pass"}, "python -m pip install pytest"),
        (
            {
                "setup.py": "setup(extras_require={'dev': ['hypothesis']}, **more)",
                "conftest.py": "",
            },
            "python -m pip install -e '.[dev]' pytest",
        ),
        (
            {"setup.cfg": "[options.extras_require]\ntest = mock", "setup.py": "", "a.py": ""},
            "python -m pip install -e '.[test]'",
        ),
        ({"setup.py": "setup(extras_require=", "a.py": ""}, "python -m pip install -e ."),
        ({"setup.py": "", "tox.ini": "[testenv]"}, "python -m pip install -e . tox"),
        ({"setup.py": "", "tests/test_a.py": "import unittest"}, "python -m pip install -e ."),
        ({"a.py": ""}, None),
        ({"package.json": "{}", "yarn.lock": "", ".yarnrc.yml": ""}, "yarn install --immutable"),
        (
            {"package.json": '{"packageManager": "pnpm@9.1.0+sha1.aa"}', "pnpm-lock.yaml": ""},
            "{ command -v pnpm >/dev/null || npm install --global pnpm@9.1.0; } && "
            "pnpm install --frozen-lockfile",
        ),
        (
            {"package.json": '{"packageManager": "bun@1; rm -rf /"}', "bun.lock": ""},
            "{ command -v bun >/dev/null || npm install --global bun; } && "
            "bun install --frozen-lockfile",
        ),
        ({"package.json": "{}"}, "npm install"),
        (package("jest"), "npm ci"),
    ],
    indirect=["project"],
)
def test_the_install_command_has_what_tests_need(project: Project, install: str | None) -> None:
    """Extras, groups and requirements of tests, the test program, and a pip that knows groups; for
    Node.js the lock file's manager."""
    assert project.install == install


@pytest.mark.parametrize(
    ("project", "lint"),
    [
        (
            {"pyproject.toml": "[tool.ruff]\n[tool.mypy]\nfiles = ['a.py']", "a.py": ""},
            ("ruff check --no-fix --output-format concise .", "mypy"),
        ),
        ({".flake8": "", "mypy.ini": "[mypy]", "a.py": ""}, ("flake8 .", "mypy .")),
        (
            {
                "package.json": '{"scripts": {"lint": "eslint ."}, '
                '"devDependencies": {"typescript": "5"}}',
                "tsconfig.json": "{}",
            },
            ("npm run lint", "npx tsc --noEmit"),
        ),
        ({"Makefile": "lint:\n"}, ("make lint",)),
    ],
    indirect=["project"],
)
def test_lint_and_type_checks_are_those_with_settings(
    project: Project, lint: tuple[str, ...]
) -> None:
    """A linter without settings in the repository is not run."""
    assert project.lint == lint


@pytest.mark.parametrize(
    ("project", "kind"),
    [
        ({"setup.py": "", "a.py": "", **package("jest")}, "node"),
        ({"conftest.py": "", "a.py": "", **package("jest")}, "python"),
        ({"go.mod": "", "a_test.go": "", "Makefile": "test:"}, "go"),
        ({"setup.py": "", "Makefile": "test:"}, "make"),
    ],
    indirect=["project"],
)
def test_of_several_kinds_the_one_with_tests_and_sources_counts(
    project: Project, kind: str
) -> None:
    """Tests come first, then source files; a makefile comes last."""
    assert project.kind == kind


def test_projects_in_folders_are_detected(tmp_path: Path) -> None:
    """Each kind without tests in the root has its outermost projects, but no samples."""
    script = '{"scripts": {"test": "node check.js"}}'
    files = {
        "web/package.json": script,
        "web/inner/package.json": script,
        "tests/fixtures/package.json": script,
        "svc/go.mod": "module svc\n",
        "svc/a_test.go": "package svc\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    found = detect(Folder(tmp_path))
    assert found is not None
    assert found.tests is not None
    assert (found.kind, found.tests.command, found.tests.folder) == (
        "node",
        "cd web && npm test",
        "web",
    )
    assert [(each.command, each.folder) for each in found.others] == [
        ("cd svc && go test -json ./...", "svc")
    ]
    (tmp_path / "test_a.py").write_text("def test_a(): pass\n")
    found = detect(Folder(tmp_path))
    assert found is not None
    assert found.kind == "python"
    assert [each.folder for each in found.others] == ["web", "svc"]


@pytest.mark.parametrize(
    ("named", "results"),
    [
        ("npm test", "jest"),
        ("npm run test", "jest"),
        ("npm run test:unit", "exit code"),
        ("npm test -- a.test.js", "exit code"),
        ("yarn test", "exit code"),
    ],
)
def test_a_named_script_of_a_package_has_the_report_of_its_program(
    named: str, results: str, tmp_path: Path
) -> None:
    """Only the whole script with the package's own manager is the detected suite."""
    for name, text in package("jest").items():
        (tmp_path / name).write_text(text)
    found = detect(Folder(tmp_path))
    assert found is not None
    assert custom(named, found.tests).results == results
