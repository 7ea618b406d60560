"""Changes to tests are reverted after the command that made them, and the model is notified."""

import pytest

from agent.arms.durable.roles import TOOLS as TOOLS_OF_ROLES
from agent.tools import Protection, Toolbox, render
from agent.workspaces import Workspace
from tests.agent.commands import sh
from tests.agent.repositories import with_files
from tests.agent.workspaces_on_host import HostWorkspaces

SURE = "def test_add():\n    assert True\n"
CORE, OTHER = "tests/test_core.py", "tests/unit/test_other.py"

TRICKS = {
    "edits a test": (f"echo 'def test_add(): pass' >{CORE}", [CORE]),
    "deletes all": ("rm -r tests", [CORE, "tests/unit/data.txt", OTHER]),
    "renames": (f"git mv {CORE} src/core.py", [CORE]),
    "edits test data": ("echo 4 >tests/unit/data.txt", ["tests/unit/data.txt"]),
    "adds a test beside the code": ("echo >src/calc/test_new.py", ["src/calc/test_new.py"]),
    "a hook in a new conftest": ("echo >src/calc/conftest.py", ["src/calc/conftest.py"]),
    "a hook in what Python imports first": (
        "echo >sitecustomize.py; echo >src/usercustomize.py",
        ["sitecustomize.py", "src/usercustomize.py"],
    ),
    "a plugin by its entry point": (
        "mkdir calc.egg-info; printf '[pytest11]\na = b\n' >calc.egg-info/entry_points.txt",
        ["calc.egg-info/entry_points.txt"],
    ),
    "a module in place of pytest": (
        "echo >pytest.py; mkdir src/_pytest; echo >src/_pytest/__init__.py; ln -s src pluggy",
        ["pluggy", "pytest.py", "src/_pytest/__init__.py"],
    ),
    "a module in place of the standard library's": (
        "echo >json.py; mkdir unittest; echo >unittest/__init__.py; echo >src/decimal.py",
        ["json.py", "src/decimal.py", "unittest/__init__.py"],
    ),
    "hidden by a .gitignore of its own": (
        "mkdir hid; echo >hid/conftest.py; echo '*' >hid/.gitignore",
        ["hid/conftest.py"],
    ),
    "hidden in a repository": (
        "git init -q src; echo >src/conftest.py; git -C src add -A; git -C src commit -qm x",
        ["src/conftest.py"],
    ),
    "sparse checkout": (
        "git update-index --refresh; git sparse-checkout set src",
        [CORE, "tests/unit/data.txt", OTHER],
    ),
    "what is remembered of the start": (
        "echo >src/conftest.py; for f in ../git /var/tmp/.durabench; do"
        " [[ -d $f ]] && printf 'src/conftest.py\\0' >$f/files; done",
        ["src/conftest.py"],
    ),
    "a link for a test": (f"ln -sf ../src/calc/core.py {CORE}", [CORE]),
    "a link for the folder": (
        "mkdir ../kept; mv tests ../kept; echo >../kept/tests/test_core.py;"
        "ln -s ../kept/tests tests",
        ["tests", CORE, "tests/unit/data.txt", OTHER],
    ),
    "a link to a folder of tests elsewhere": (
        "mkdir -p ../out; echo >../out/conftest.py; ln -s ../../out src/tests",
        ["src/tests"],
    ),
    "a file for the folder": (
        "rm -r tests; echo >tests",
        ["tests", CORE, "tests/unit/data.txt", OTHER],
    ),
    "a mode": (f"chmod +x {CORE}", [CORE]),
    "a pipe": (f"rm {CORE}; mkfifo {CORE}", [CORE]),
    "pytest.ini": ("echo '[pytest]' >pytest.ini", ["pytest.ini"]),
    "pyproject.toml, pytest": (
        "sed -i 's/addopts.*/addopts = \"--co\"/' pyproject.toml",
        ["pyproject.toml"],
    ),
    "pyproject.toml, new table": (
        "printf '[tool.pytest]\\naddopts = [\"--co\"]' >src/pyproject.toml",
        ["src/pyproject.toml"],
    ),
    "pyproject.toml, broken": ("echo [ >>pyproject.toml", ["pyproject.toml"]),
    "setup.cfg": ("echo 'python_files = none.py' >>setup.cfg", ["setup.cfg"]),
    "setup.cfg, a comment in the header": (
        "sed -i 's/^.tool:pytest.$/[tool:pytest] # ]/' setup.cfg",
        ["setup.cfg"],
    ),
    "setup.cfg, a form feed": (
        "printf '[x]\\na = b\\f[pytest]\\faddopts = --co' >src/setup.cfg",
        ["src/setup.cfg"],
    ),
    "setup.cfg, a plugin": (
        "printf '[options.entry_points]\npytest11 =\n  a = b\n' >src/setup.cfg",
        ["src/setup.cfg"],
    ),
    "setup.cfg, coverage": ("printf '[coverage:run]\nplugins = x\n' >>setup.cfg", ["setup.cfg"]),
    "pyproject.toml, a plugin": (
        "printf '[project.entry-points.pytest11]\na = \"b\"\n' >src/pyproject.toml",
        ["src/pyproject.toml"],
    ),
    "package.json, a script": (
        """echo '{"scripts": {"test": "true"}}' >package.json""",
        ["package.json"],
    ),
    "tox.ini": ("sed -i 's/commands.*/commands = true/' tox.ini", ["tox.ini"]),
    "tox.ini, a link": ("mv tox.ini docs/tox; ln -s docs/tox tox.ini", ["tox.ini"]),
}


@pytest.mark.parametrize(("command", "expected"), TRICKS.values(), ids=TRICKS)
async def test_tricks_are_reverted(
    workspace: Workspace, implementer: Toolbox, command: str, expected: list[str]
) -> None:
    """Protected files are restored, and both the result and the text for the model name them."""
    look = "cat conftest.py pyproject.toml setup.cfg tox.ini $(find tests -type f | sort)"
    modes = "; stat -c '%n %f' conftest.py tests tests/* tests/*/*"
    before = await sh(workspace, look + modes)
    result = await implementer.use(workspace, "run_command", {"command": command})
    assert result.put_back == sorted(expected)
    assert not set(expected) & set(result.changed)
    assert await sh(workspace, look + modes) == before
    changed = {change.path for change in await workspace.changes()}
    assert not changed & set(expected)
    text = render(result)
    assert all(path in text for path in expected)
    again = await implementer.use(workspace, "run_command", {"command": "true"})
    assert again.put_back == []


HARMLESS = {
    "code": ("echo 'x = 1' >>src/calc/core.py", ["src/calc/core.py"]),
    "docs": ("git mv docs/latin.txt docs/l.txt", ["docs/l.txt", "docs/latin.txt"]),
    "pyproject.toml": ("sed -i s/calc/calculator/ pyproject.toml", ["pyproject.toml"]),
    "setup.cfg": ("sed -i s/calc/calculator/ setup.cfg", ["setup.cfg"]),
    "setup.cfg, new": ("printf '[metadata]\\nname = x' >src/setup.cfg", ["src/setup.cfg"]),
    "setup.cfg, a dependency": (
        "printf '[options]\ninstall_requires = tomlkit\n' >>setup.cfg",
        ["setup.cfg"],
    ),
    "package.json, a dependency": (
        """echo '{"dependencies": {"a": "1"}}' >package.json""",
        ["package.json"],
    ),
    "tox.ini": ("sed -i s/E1/E2/ tox.ini", ["tox.ini"]),
    "ignored": ("echo log >run.log", []),
    "reads": ("cat tests/*.py; git status; git log", []),
    "restores": (f"echo >{CORE}; git checkout -q {CORE}", []),
}


@pytest.mark.parametrize(("command", "expected"), HARMLESS.values(), ids=HARMLESS.keys())
async def test_work_is_left_alone(
    host: Workspace, implementer: Toolbox, command: str, expected: list[str]
) -> None:
    """Changes to code, and to unrelated settings in files that configure test runners, are kept."""
    result = await implementer.use(host, "run_command", {"command": command})
    assert (result.put_back, result.changed) == ([], expected)


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("write", {"path": CORE, "content": SURE}),
        ("write", {"path": "src/conftest.py", "content": "hook"}),
        ("edit", {"path": CORE, "old": "== 3", "new": "== -1"}),
        (
            "apply_patch",
            {
                "patch": f"--- a/{CORE}\n+++ b/{CORE}\n@@ -4,2 +4,2 @@\n def test_add():\n"
                "-    assert add(1, 2) == 3\n+    assert True\n"
            },
        ),
    ],
)
async def test_every_tool_that_writes_is_watched(
    host: Workspace, implementer: Toolbox, tool: str, arguments: dict[str, str]
) -> None:
    """Every other tool that writes is prevented from changing tests as well."""
    result = await implementer.use(host, tool, arguments)
    assert result.ok
    assert len(result.put_back) == 1
    assert result.changed == []
    assert await host.changes() == []


async def test_code_under_test_cannot_change_its_tests(
    host: Workspace, implementer: Toolbox
) -> None:
    """Changes that code under test makes during a test run are reverted as well."""
    cheat = f"open('{CORE}', 'w').write('def test_add(): pass')\n"
    await implementer.use(
        host, "edit", {"path": "src/calc/core.py", "old": "def", "new": f"{cheat}def"}
    )
    result = await implementer.use(host, "run_tests", {"paths": [CORE]})
    assert result.put_back == [CORE]


async def test_a_forged_compiled_test_is_deleted(host: Workspace, implementer: Toolbox) -> None:
    """A compiled test that differs from its source is deleted silently."""
    compiled = (
        "import py_compile as p;"
        f"p.compile('{CORE}', invalidation_mode=p.PycInvalidationMode.UNCHECKED_HASH)"
    )
    forge = f"echo 'x = 1' >{CORE}; python3 -c \"{compiled}\"; git checkout -q {CORE}"
    await sh(host, "mkdir -p tests/__pycache__")
    assert "tests" in await sh(host, f"{forge}; ls tests/__pycache__/*.pyc")
    result = await implementer.use(host, "run_command", {"command": forge})
    assert result.put_back == []
    assert await sh(host, "find . -name '*.pyc'") == ""


ANCHOR = "tests/test_anchor.py"
CONTENT = "from calc import add\n\n\ndef test_anchor():\n    assert add(1, 1) == 2\n"


@pytest.fixture
def excepted() -> Toolbox:
    """Return an implementer's tools once there is a reproduction test."""
    protection = Protection(allowed={ANCHOR: CONTENT.encode()})
    return Toolbox(TOOLS_OF_ROLES["implementer"], protection=protection)


async def test_the_anchor_test_may_be_there(host: Workspace, excepted: Toolbox) -> None:
    """A reproduction test with its recorded content is not reverted."""
    await host.write(ANCHOR, CONTENT.encode())
    result = await excepted.use(host, "run_command", {"command": f"git add -A; cat {ANCHOR}"})
    assert (result.put_back, result.output) == ([], CONTENT)


ANCHOR_TRICKS = [
    f"echo >{ANCHOR}",
    f"rm {ANCHOR}",
    f"mv {ANCHOR} src; ln -s ../src/test_anchor.py {ANCHOR}",
    f"rm {ANCHOR}; mkdir {ANCHOR}; echo >{ANCHOR}/x",
    f"rm {ANCHOR}; mkfifo {ANCHOR}",
    "mv tests docs; ln -s docs/tests tests",
    f"ln -sf /etc/passwd {ANCHOR}",
]


@pytest.mark.parametrize("command", ANCHOR_TRICKS)
async def test_the_anchor_test_may_not_be_changed(
    workspace: Workspace, excepted: Toolbox, command: str
) -> None:
    """A changed reproduction test is restored as a regular file, and nothing is written to the
    targets of links."""
    await workspace.write(ANCHOR, CONTENT.encode())
    before = await sh(workspace, "cat /etc/passwd")
    result = await excepted.use(workspace, "run_command", {"command": command})
    assert ANCHOR in result.put_back
    assert await workspace.read(ANCHOR) == CONTENT.encode()
    assert await sh(workspace, f"stat -c %F {ANCHOR}") == "regular file\n"
    assert await sh(workspace, "cat /etc/passwd") == before
    tests = [change.path for change in await workspace.changes() if change.path.startswith("tests")]
    assert tests == [ANCHOR]


async def test_the_writer_of_the_anchor_test_adds_tests_only(host: Workspace) -> None:
    """The author of the reproduction test can add test files but no conftest, and cannot overwrite
    existing tests."""
    anchor = Toolbox(TOOLS_OF_ROLES["anchor"], protection=Protection(new_tests=True))
    written = await anchor.use(host, "write_new", {"path": ANCHOR, "content": CONTENT})
    assert (written.ok, written.changed, written.put_back) == (True, [ANCHOR], [])
    run = await anchor.use(host, "run_tests", {"paths": [ANCHOR]})
    assert run.tests is not None
    assert run.tests.failed == [f"{ANCHOR}::test_anchor"]
    hook = await anchor.use(host, "write_new", {"path": "tests/conftest.py", "content": ""})
    assert hook.put_back == ["tests/conftest.py"]
    existing = await anchor.use(host, "write_new", {"path": CORE, "content": SURE})
    assert not existing.ok
    assert "exists" in existing.output


async def test_tests_that_the_repository_states_are_protected() -> None:
    """Files that only pytest's configuration makes tests are restored, too."""
    files = {
        "setup.cfg": "[tool:pytest]\npython_files = check_*.py\n",
        "src/check_calc.py": SURE,
        "src/calc.py": "",
    }
    workspaces = HostWorkspaces(with_files(files))
    async with workspaces.open("one", image="", goes_on=False) as workspace:
        await sh(workspace, "echo >src/check_calc.py; echo 'x = 1' >src/calc.py")
        assert await Protection().enforce(workspace) == ["src/check_calc.py"]
        assert [change.path for change in await workspace.changes()] == ["src/calc.py"]
