"""Read-only tools: numbered lines, matches, and symbols with their locations."""

import re

import pytest

from agent.tools import Toolbox
from agent.workspaces import Workspace
from tests.agent.commands import sh

SUMS = "src/calc/sums.py"


async def test_a_file_is_shown_with_line_numbers(host: Workspace, implementer: Toolbox) -> None:
    """The whole file or a range of lines is shown. A range may end beyond the last line."""
    whole = await implementer.use(host, "read", {"path": SUMS})
    assert whole.output.startswith(
        f"{SUMS}, lines 1 to 8 of 8\n1\tfrom calc.core import add\n2\t\n"
    )
    part = await implementer.use(host, "read", {"path": SUMS, "start": 7, "end": 99})
    assert part.output == (
        f"{SUMS}, lines 7 to 8 of 8\n7\t        result = add(result, number)\n8\t    return result"
    )


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({"path": "nowhere.py"}, "there is no file nowhere.py"),
        ({"path": SUMS, "start": 9}, "has 8 lines; from 9 to the end there are none"),
        ({"path": SUMS, "start": 5, "end": 4}, "from 5 to 4 there are none"),
        ({"path": SUMS, "start": 0}, "wrong arguments of read: start: "),
        ({"path": "docs/logo.png"}, "is a binary file of 3 bytes"),
        ({"path": "huge.log"}, "larger than"),
    ],
)
async def test_a_failed_read_says_why(
    host: Workspace, implementer: Toolbox, arguments: dict[str, object], reason: str
) -> None:
    """Missing, binary and huge files and empty ranges give the model a reason."""
    await sh(host, "truncate -s 1T huge.log")
    result = await implementer.use(host, "read", arguments)
    assert not result.ok
    assert reason in result.output


async def test_files_of_every_kind_are_shown(host: Workspace, implementer: Toolbox) -> None:
    """Encodings are decoded, line ends hidden, folders listed and empty files named as such."""
    await host.write("empty.txt", b"")
    shown = {
        path: (await implementer.use(host, "read", {"path": path})).output
        for path in ("docs/crlf.txt", "docs/latin.txt", "src", ".", "empty.txt")
    }
    assert shown["docs/crlf.txt"].endswith("1\tun\n2\tdeux\n3\ttrois")
    assert shown["docs/latin.txt"].endswith("1\tcafé\n2\tthé")
    assert shown["src"] == "src is a folder with\ncalc/\n"
    assert "\nsrc/\n" in shown["."]
    assert shown["empty.txt"] == "empty.txt is an empty file"


async def test_a_search_names_every_line(host: Workspace, implementer: Toolbox) -> None:
    """Matches are sorted by path and include new files but no ignored ones. Long lines are cut."""
    await host.write("aa.txt", b"def add" + b"x" * 5000 + b"\n")
    await host.write("ignored.log", b"def add\n")
    result = await implementer.use(host, "search", {"pattern": r"^def add(x|\b)"})
    first, second = result.output.splitlines()
    assert first.startswith("aa.txt:1:def addxxx")
    assert re.search(r"x \[\.\.\. \d+ more characters\]$", first)
    assert second == "src/calc/core.py:1:def add(a, b):"


@pytest.mark.parametrize(
    ("arguments", "ok", "output"),
    [
        ({"pattern": "def", "path": "src/calc/core.py"}, True, "src/calc/core.py:1:def add(a, b):"),
        ({"pattern": "nowhere to be found"}, True, "no line in . matches nowhere to be found"),
        ({"pattern": "def ("}, False, "cannot search for def (: "),
        ({"pattern": "x", "path": "*"}, True, "no line in * matches x"),
        ({"pattern": "it's $(x) `y`"}, True, "no line"),
        ({"pattern": ""}, False, "wrong arguments of search: pattern: "),
    ],
)
async def test_a_search_says_what_it_found(
    host: Workspace, implementer: Toolbox, arguments: dict[str, str], ok: bool, output: str
) -> None:
    """A search returns matches, a note that there are none, or what is wrong with the pattern."""
    result = await implementer.use(host, "search", arguments)
    assert result.ok == ok
    assert result.output.startswith(output)


async def test_symbols_are_found_in_the_current_code(host: Workspace, implementer: Toolbox) -> None:
    """Definitions, callers and callees have their locations, also after an edit."""

    async def ask(tool: str, symbol: str) -> str:
        result = await implementer.use(host, tool, {"symbol": symbol})
        assert result.ok
        return result.output

    assert "src/calc/core.py:1-3 function" in await ask("find_definition", "add")
    assert "Add two numbers." in await ask("find_definition", "add")
    assert f"{SUMS}:7 in " in await ask("find_callers", "add")
    assert re.search(
        r"sums\.py:7: add is .*core\.add \(src/calc/core\.py:1\)",
        await ask("find_callees", "total"),
    )
    assert "no definition of plus is known" in await ask("find_definition", "plus")
    await implementer.use(
        host, "edit", {"path": "src/calc/core.py", "old": "def add", "new": "\ndef plus"}
    )
    assert "src/calc/core.py:2-4 function" in await ask("find_definition", "plus")
    assert "no caller of plus is known" in await ask("find_callers", "plus")


async def test_symbols_that_are_not_known_are_found_by_text(
    host: Workspace, implementer: Toolbox
) -> None:
    """What the index does not know, such as a name of another language, is searched in the text."""
    await host.write("web/cart.js", b"export function total(cart) {}\nlet subtotals = 1;\n")
    await host.write("web/page.js", b"show(cart.total2, checkout$(cart));\ncart.render();\n")

    async def ask(tool: str, symbol: str) -> list[str]:
        result = await implementer.use(host, tool, {"symbol": symbol})
        assert result.ok
        return result.output.splitlines()

    assert await ask("find_callers", "Cart.render") == [
        "no caller of Cart.render is known; these lines contain the name:",
        "web/page.js:2:cart.render();",
    ]
    assert (await ask("find_definition", "checkout$"))[1:] == [
        "web/page.js:1:show(cart.total2, checkout$(cart));"
    ]
    assert await ask("find_callees", "nonesuch") == [
        "no callee of nonesuch is known, and no line contains the name"
    ]
    assert "core.py:1" in (await ask("find_callees", "total"))[0]
    await host.write("web/many.js", b"often();\n" * 99)
    often = await ask("find_definition", "often")
    assert (len(often), often[-1]) == (52, "[... 49 more; search for the name]")
