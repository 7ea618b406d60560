"""What a program reads, changes and writes back is the file to the byte, by every pair of tools."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st

from agent.tools import Toolbox
from agent.tools.editing import Text
from agent.tools.toolbox import TOOLS
from agent.workspaces import Workspace

TOOLBOX = Toolbox(TOOLS)
PATH = "a file.txt"

TEXTS = st.builds(
    lambda bom, lines, end: bom + "".join(map("".join, lines)) + end,
    st.sampled_from(["", "\ufeff"]),
    st.lists(st.tuples(st.text("a\té\x0c日\u2028"), st.sampled_from(["\n", "\r\n"]))),
    st.sampled_from(["", "no end"]),
)

CHANGES: dict[str, Callable[[str], str]] = {
    "replace": lambda text: text.replace("a", "bb").replace("\t", "    "),
    "append": lambda text: text + "new\n",
    "insert": lambda text: "new\r\n" + text,
    "cut": lambda text: text[: len(text) // 2],
    "end": lambda text: text.removesuffix("\n").removesuffix("\r"),
}


async def use(workspace: Workspace, name: str, **arguments: Any) -> Any:
    """Use a tool as a program does, and return its value."""
    result = await TOOLBOX.use(workspace, name, arguments, by_program=True)
    assert result.ok, result.output
    return TOOLS[name].value.of(result)


async def read(workspace: Workspace) -> str:
    """Read the file at once."""
    return str(await use(workspace, "read", path=PATH))


async def read_in_parts(workspace: Workspace) -> str:
    """Read each line, as many as a search for any line finds."""
    matches = await use(workspace, "search", pattern="^", path=PATH)
    parts = [
        await use(workspace, "read", path=PATH, start=match["line"], end=match["line"])
        for match in matches
    ]
    assert [part.removesuffix("\n").removesuffix("\r") for part in parts] == [
        match["text"] for match in matches
    ]
    return "".join(parts)


async def write(workspace: Workspace, old: str, new: str) -> None:
    """Replace the file."""
    await use(workspace, "write", path=PATH, content=new)


async def write_new(workspace: Workspace, old: str, new: str) -> None:
    """Remove the file, and create it."""
    await use(workspace, "run_command", command=f"rm '{PATH}'")
    await use(workspace, "write_new", path=PATH, content=new)


async def edit(workspace: Workspace, old: str, new: str) -> None:
    """Replace the whole text."""
    await use(workspace, "edit", path=PATH, old=old, new=new)


async def apply_patch(workspace: Workspace, old: str, new: str) -> None:
    """Replace all lines. A patch of a file with CR LF adds lines with CR LF."""
    assume(new and (not Text(old).is_crlf or Text(new).is_crlf))
    removed, added = old.split("\n"), new.split("\n")
    lines = [*_lines_of_patch("-", removed), *_lines_of_patch("+", added)]
    counts = [len(rows) - (not rows[-1]) for rows in (removed, added)]
    hunk = f"@@ -1,{counts[0]} +1,{counts[1]} @@\n"
    patch = f"--- a/{PATH}\t\n+++ b/{PATH}\t\n{hunk}{''.join(lines)}"
    await use(workspace, "apply_patch", patch=patch)


def _lines_of_patch(sign: str, rows: list[str]) -> list[str]:
    last = [f"{sign}{rows[-1]}\n\\ No newline at end of file\n"] if rows[-1] else []
    return [*(f"{sign}{row}\n" for row in rows[:-1]), *last]


@pytest.mark.parametrize("put", [write, write_new, edit, apply_patch])
@pytest.mark.parametrize("get", [read, read_in_parts])
@settings(suppress_health_check=list(HealthCheck), max_examples=6)
@given(old=TEXTS, change=st.sampled_from(sorted(CHANGES)))
@example(old="one\r\ntwo\r\nno end", change="replace")
@example(old="\n\r\n", change="cut")
@example(old="\ufeffone\n\ttwo\r\n", change="append")
async def test_a_change_is_exact(
    host: Workspace,
    get: Callable[[Workspace], Awaitable[str]],
    put: Callable[[Workspace, str, str], Awaitable[None]],
    old: str,
    change: str,
) -> None:
    """Line ends, tabs, a byte order mark and a missing end of the last line are as they were."""
    new = CHANGES[change](old)
    assume(old and new != old)
    await host.write(PATH, old.encode())
    text = await get(host)
    assert text == old
    await put(host, text, new)
    assert await host.read(PATH) == new.encode()


async def test_a_large_file_of_another_encoding_is_exact(host: Workspace) -> None:
    """A megabyte in Latin-1 comes whole, and goes back in its encoding."""
    content = "caf\xe9\tau lait\r\n".encode("latin-1") * 80_000
    await host.write(PATH, content)
    await write(host, "", (await read(host)).replace("lait", "th\xe9"))
    assert await host.read(PATH) == content.replace(b"lait", b"th\xe9")
