"""Edits change exactly the intended text, and keep the encoding and line endings of a file."""

import re

import pytest

from agent.arms.durable.roles import TOOLS as TOOLS_OF_ROLES
from agent.tools import Toolbox
from agent.workspaces import Workspace

CORE = "src/calc/core.py"


async def test_an_edit_replaces_one_place(host: Workspace, implementer: Toolbox) -> None:
    """An edit leaves the rest of the file unchanged and reports the changed file."""
    before = await host.read(CORE)
    result = await implementer.use(host, "edit", {"path": CORE, "old": "a - b", "new": "a + b"})
    assert (result.ok, result.changed, result.put_back) == (True, [CORE], [])
    assert await host.read(CORE) == before.replace(b"a - b", b"a + b")


@pytest.mark.parametrize(
    ("path", "old", "new", "content"),
    [
        ("docs/crlf.txt", "deux\n", "2\nzwei\n", b"un\r\n2\r\nzwei\r\ntrois\r\n"),
        ("docs/crlf.txt", "un\r\ndeux", "1\r\n2", b"1\r\n2\r\ntrois\r\n"),
        ("docs/crlf.txt", "trois", "3\n4", b"un\r\ndeux\r\n3\r\n4\r\n"),
        ("docs/crlf.txt", "deux\n", "", b"un\r\ntrois\r\n"),
        ("docs/mixed.txt", "deux\n", "2\n3\n", b"un\r\n2\n3\ntrois\n"),
        ("docs/mixed.txt", "un\ndeux", "1\n2", b"1\r\n2\ntrois\n"),
        ("docs/latin.txt", "café\n", "thé\ncafé\n", b"th\xe9\ncaf\xe9\nth\xe9\n"),
        ("docs/latin.txt", "caf", "", b"\xe9\nth\xe9\n"),
    ],
)
async def test_an_edit_keeps_line_ends_and_encoding(
    host: Workspace, implementer: Toolbox, path: str, old: str, new: str, content: bytes
) -> None:
    """Models do not see encoding or line ends, so their text is adapted to the file."""
    result = await implementer.use(host, "edit", {"path": path, "old": old, "new": new})
    assert result.ok, result.output
    assert await host.read(path) == content


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("number", "n", r"occurs 4 times in src/calc/sums.py, at lines 4, 6, 6, 7; give more"),
        ("    resullt = 0", "", r"does not occur in .*\n5\tresult = 0"),
        ("result  = add", "", r"does not occur in .* as it was given"),
        ("nothing like it at all", "", r"no line is like 'nothing like it at all'; read the file"),
        ("def total", "def total", r"nothing would change"),
        ("", "x", r"wrong arguments of edit: old: .*at least 1 character"),
    ],
)
async def test_an_edit_that_matches_nowhere_or_twice_says_so(
    host: Workspace, implementer: Toolbox, old: str, new: str, reason: str
) -> None:
    """The error gives the matching lines or the most similar one. The file is unchanged."""
    path = "src/calc/sums.py"
    result = await implementer.use(host, "edit", {"path": path, "old": old, "new": new})
    assert not result.ok
    assert result.changed == []
    assert re.search(reason, result.output)


@pytest.mark.parametrize(
    ("tool", "arguments", "reason"),
    [
        ("edit", {"path": "nowhere.py", "old": "a", "new": "b"}, "there is no file nowhere.py"),
        ("edit", {"path": "docs", "old": "a", "new": "b"}, "there is no file docs"),
        ("edit", {"path": "docs/logo.png", "old": "a", "new": "b"}, "is a binary file of 3 bytes"),
        ("edit", {"path": "docs/latin.txt", "old": "caf", "new": "🎉"}, "cannot hold '🎉'"),
        ("write", {"path": "docs", "content": "x"}, "cannot write docs: .*directory"),
        ("write", {"path": "docs/crlf.txt/x", "content": "x"}, "cannot write"),
        ("write", {"path": ".", "content": "x"}, "is the repository's root"),
        ("write", {"path": "", "content": "x"}, "cannot resolve"),
    ],
)
async def test_a_failed_write_says_why(
    host: Workspace, implementer: Toolbox, tool: str, arguments: dict[str, str], reason: str
) -> None:
    """A failed write gives the model a reason that it can act on and raises no exception."""
    result = await implementer.use(host, tool, arguments)
    assert not result.ok
    assert result.changed == []
    assert re.search(reason, result.output)


async def test_write_creates_and_replaces(host: Workspace, implementer: Toolbox) -> None:
    """New files are UTF-8. Replaced files keep their encoding and line ends."""
    for path, content in (
        ("new/é.txt", "é\n".encode()),
        ("docs/crlf.txt", "é\r\n".encode()),
        ("docs/latin.txt", b"\xe9\n"),
        ("docs/logo.png", "é\n".encode()),
    ):
        result = await implementer.use(host, "write", {"path": path, "content": "é\n"})
        assert (result.ok, result.changed) == (True, [path])
        assert await host.read(path) == content


async def test_write_new_replaces_nothing(host: Workspace) -> None:
    """An existing file is not replaced, even if it is empty."""
    tools = Toolbox(TOOLS_OF_ROLES["anchor"])
    await host.write("empty.txt", b"")
    for path in ("empty.txt", CORE, "docs/../empty.txt"):
        result = await tools.use(host, "write_new", {"path": path, "content": "x"})
        assert not result.ok
        assert "only new files can be written" in result.output
    assert await host.read("empty.txt") == b""


PATCH = "--- a/{path}\n+++ b/{path}\n@@ -1,3 +1,3 @@\n {one}\n-{two}\n+2\n {three}\n"


@pytest.mark.parametrize(
    ("path", "lines", "content"),
    [
        ("docs/crlf.txt", ("un", "deux", "trois"), b"un\r\n2\r\ntrois\r\n"),
        ("docs/crlf.txt", ("un\r", "deux\r", "trois\r"), b"un\r\n2\r\ntrois\r\n"),
        (
            CORE,
            ("def add(a, b):", '    "Add two numbers."', "    return a - b"),
            b"def add(a, b):\n2\n    return a - b\n",
        ),
    ],
)
async def test_a_patch_is_applied(
    host: Workspace, implementer: Toolbox, path: str, lines: tuple[str, ...], content: bytes
) -> None:
    """A patch also applies to a file with CR LF, although patches from models have LF."""
    one, two, three = lines
    patch = PATCH.format(path=path, one=one, two=two, three=three)
    new = "--- /dev/null\n+++ b/new.txt\n@@ -0,0 +1,2 @@\n+new\n+-- \n"
    result = await implementer.use(host, "apply_patch", {"patch": (patch + new).rstrip("\n")})
    assert result.ok, result.output
    assert result.changed == sorted([path, "new.txt"])
    assert await host.read(path) == content
    assert await host.read("new.txt") == b"new\n-- \n"


async def test_a_patch_that_does_not_apply_says_where(
    host: Workspace, implementer: Toolbox
) -> None:
    """If one part of a patch does not apply, nothing changes and git's message is returned."""
    good = PATCH.format(path="docs/crlf.txt", one="un", two="deux", three="trois")
    bad = PATCH.format(path=CORE, one="def add():", two="x", three="y")
    result = await implementer.use(host, "apply_patch", {"patch": good + bad})
    assert not result.ok
    assert f"nothing was changed: error: patch failed: {CORE}:1" in result.output
    assert result.changed == []
