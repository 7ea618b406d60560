"""Cells in interpreters of a workspace: what they keep, what they depend on, what they tell."""

import pytest

from agent.cells.running import needs
from tests.agent.cells.conftest import Talk, on_host

pytestmark = [pytest.mark.slow]


async def test_variables_functions_and_classes_are_there_for_later_cells(host: Talk) -> None:
    """A cell has the values of the cells before it. The value of its last expression is shown."""
    wrote = await host.use(
        "cell_run",
        code="from dataclasses import dataclass, asdict\nimport lib\nxs = ys = [1]\nk = 3\n"
        "@dataclass\nclass Point:\n  x: int = 1\n"
        "def scaled(p): return lib.double(p.x) * k\np = Point(2)",
    )
    assert wrote.output == (
        "cell 1: wrote Point, class Point, asdict, dataclass, k, lib, p, scaled, xs, ys"
    )
    assert await host.run("xs.append(2); ys, scaled(p), asdict(p), p == Point(2)") == (
        "([1, 2], 12, {'x': 2}, True)"
    )
    assert await host.run("print('shown'); None") == "shown"


async def test_enumerations_are_there_for_later_cells(host: Talk) -> None:
    """A member is the same object as in the cell that defined it."""
    await host.run("import enum\nclass Colour(enum.Enum):\n  RED = 1\nred = Colour.RED")
    assert await host.run("red is Colour.RED, Colour(1)") == "(True, <Colour.RED: 1>)"


async def test_only_what_depends_on_an_edit_runs_again(host: Talk) -> None:
    """An edit makes the cells behind it stale, and a replay says whose output changed."""
    for code in ("a = 1", "b = 5", "print(a > 0)", "c = a + b; c", "b"):
        await host.run(code)
    edited = await host.use("cell_edit", cell=1, code="a = 2")
    assert edited.output == "stale: cell 1, cell 3, cell 4. Run them with cell_replay."
    replayed = await host.use("cell_replay")
    assert replayed.output.splitlines() == [
        "ran: cell 1, cell 3, cell 4",
        "cell 1: same output",
        "cell 3: same output",
        "cell 4: its output changed",
        "7",
    ]
    assert (await host.use("cell_replay")).output == "nothing that this needs is stale"


async def test_a_replay_of_one_cell_runs_what_that_needs(host: Talk) -> None:
    """The others stay stale."""
    for code in ("a = 1", "b = a", "c = a", "d = c"):
        await host.run(code)
    await host.use("cell_edit", cell=1, code="a = 2")
    assert await host.ran(cell=3) == [1, 3]
    assert host.stale == [2, 4]


async def test_files_and_modules_are_edges(host: Talk) -> None:
    """A change of a file that a cell read, imported or wrote makes the cells behind it stale."""
    for code in (
        "import lib",
        "made = lib.double(2)",
        "text = open('data.txt').read()",
        "open('out.txt', 'w').write(text); None",
        "open('out.txt').read()",
        "1 + 1",
    ):
        await host.run(code)
    assert await host.ran() == []
    await host.shell("sed -i s/2/3/ lib.py")
    assert await host.ran() == [1, 2]
    await host.shell("echo 9 >data.txt")
    assert await host.ran() == [3, 4, 5]
    await host.shell("echo other >out.txt")
    assert await host.ran() == [5]
    assert host.notebook.cells[4].record.output == "'other\\n'\n"


async def test_files_of_programs_reach_the_cells_that_read_them(host: Talk) -> None:
    """In one replay. A new cell knows what is stale, and says what it makes stale."""
    for code in (
        "import subprocess; subprocess.run('echo 1 >e.txt', shell=True)",
        "v = open('e.txt').read()",
        "v * 2",
    ):
        await host.run(code)
    await host.use("cell_edit", cell=1, code="import os; os.system('echo 8 >e.txt')")
    assert await host.ran() == [1, 2, 3]
    assert host.notebook.cells[2].record.output == "'8\\n8\\n'\n"
    made = await host.use("cell_run", code="import os; os.system('echo 9 >e.txt')")
    assert "stale now: cell 1, cell 2, cell 3. Run them with cell_replay." in made.output
    used = await host.use("cell_run", code="v")
    assert "It used what stale cells left" in used.output


async def test_a_cell_that_starts_programs_depends_on_every_file(host: Talk) -> None:
    """The files of other programs are not seen, so any change of the tree makes it stale."""
    await host.run("import subprocess; subprocess.run(['cat', 'data.txt']).returncode")
    await host.run("open('data.txt').read()")
    assert await host.ran() == []
    await host.shell("touch new.txt")
    assert await host.ran() == [1]


async def test_a_failure_comes_with_its_reason_and_a_patch(host: Talk) -> None:
    """The patch repairs a misspelt name, here or in a function of another cell, or an import."""
    await host.run("total = 4\ndef shown(): return len(totl)")
    failed = await host.fail("x = total\nprint(totle)")
    assert "Was `total` meant, which cell 1 wrote?" in failed
    assert "-print(totle)\n+print(total)" in failed
    assert "It used total (cell 1)." in failed
    assert "For `cell_edit` of cell 1:" in await host.fail("shown()")
    assert "+import json\n" in await host.fail("json.dumps(1)")
    assert "+from collections import Counter\n" in await host.fail("Counter('aab')")
    assert "NameError: name 'unheard' is not defined" in await host.fail("unheard")
    await host.use("cell_edit", cell=2, code="x = total\nprint(total)")
    assert (await host.use("cell_replay")).output.endswith("cell 2: its output changed\n4")
    assert await host.run("x") == "4"


async def test_a_replay_stops_at_a_failure(host: Talk) -> None:
    """The cells behind it stay stale, because they would use what it did not write."""
    for code in ("a = 1", "b = 1 / a", "b"):
        await host.run(code)
    await host.use("cell_edit", cell=1, code="a = 0")
    replayed = await host.use("cell_replay")
    assert not replayed.ok
    assert "ZeroDivisionError" in replayed.output
    assert replayed.output.endswith("still stale: cell 3")


async def test_what_cannot_be_stored_is_made_again(host: Talk) -> None:
    """A generator continues where the cells before have left it, also after an edit of one."""
    made = await host.use("cell_run", code="k = 10; rows = (i + k for i in range(9)); kept = 1")
    assert "`rows` is made again by this cell wherever it is used: a value of type gen" in (
        made.output
    )
    assert await host.run("next(rows)") == "10"
    assert await host.run("k = 20; next(rows)") == "21"
    assert await host.run("next(rows), kept") == "(22, 1)"
    await host.use("cell_edit", cell=2, code="next(rows), next(rows)")
    assert await host.ran() == [2, 3, 4]
    assert host.notebook.cells[3].record.output == "(23, 1)\n"
    large = await host.use("cell_run", code="large = bytes(300_000_000)")
    assert "(it takes more than 256 MB)" in large.output
    assert await host.run("len(large)") == "300000000"


async def test_a_cell_that_makes_something_again_is_neither_seen_nor_heard(host: Talk) -> None:
    """It prints nothing, and leaves files as they are. An open file continues where it was."""
    await host.run(
        "import threading; open('data.txt', 'w').write('made'); lock = threading.Lock()"
        "\nprint('loud')\nlog = open('log.txt', 'w'); print('one', file=log, flush=True)"
    )
    await host.shell("echo mine >data.txt")
    assert await host.run("lock.acquire(); print('two', file=log, flush=True)") == ""
    assert await host.run("lock.locked()") == "True"
    await host.shell('test "$(cat data.txt log.txt)" = "$(printf "mine\\none\\ntwo")"')
    assert host.notebook.cells[1].record.files_read == {}


async def test_what_makes_something_again_finds_what_it_needs(host: Talk) -> None:
    """It has the variables and the classes that it had, also from a store that was lost."""
    await host.run("n = 2")
    await host.run("class Kind(type): pass\nclass Odd(metaclass=Kind): size = n\nodd = Odd()")
    await host.run("rows = (each for each in range(n)); odds = [odd]")
    await host.run("n = 7")
    assert await host.run("isinstance(odd, Odd), odds[0] is odd, list(rows)") == (
        "(True, True, [0, 1])"
    )
    await host.shell("rm -r $TMPDIR/durabench-cells")
    result = await host.use("cell_run", code="list(rows), odd.size, n")
    assert result.output.splitlines()[-1] == "([], 2, 7)"
    assert "ran again first, because their variables were lost" in result.output


async def test_what_is_not_made_again_is_said_where_it_is_used(host: Talk) -> None:
    """The other variables of the cell are kept."""
    once = "import os\nif not os.path.exists('once'): rows = (i for i in '1')"
    await host.run(f"{once}\nkept = open('once', 'w').write('')")
    assert "NotKept: rows was not kept: a value of type generator" in await host.fail("next(rows)")
    assert await host.run("kept") == "0"
    odd = "class Odd:\n  def __reduce__(self): raise ValueError('\\ud800\\0')\nodd = Odd()"
    assert "`odd` is made again" in (await host.use("cell_run", code=odd)).output
    await host.run("globals()[1] = globals()['\\0'] = open(b'\\xff', 'w').write('')")


async def test_the_list_says_what_uses_what(host: Talk) -> None:
    """Each line has the state, the code, the variables and their cells, and the files."""
    assert (await host.use("cells")).output == "there are no cells yet: use cell_run"
    await host.run("text = open('data.txt').read()\nn = 1")
    await host.run("len(text) + n")
    assert (await host.use("cells")).output.splitlines() == [
        "1 executed: text = open('data.txt').read() | wrote n, text | reads data.txt",
        "2 executed: len(text) + n | uses n, text of 1",
    ]
    for name, given in (("cell_edit", {"cell": 7, "code": "1"}), ("cell_replay", {"cell": 7})):
        refused = await host.use(name, **given)
        assert (refused.ok, refused.output) == (False, "there is no cell 7: the cells are 1 to 2")


BAD = {
    "exits": ("import os; os._exit(3)", "with exit code 3"),
    "closes everything": ("import os; os.closerange(0, 99)", "the interpreter ended"),
    "raises": ("raise KeyboardInterrupt", "KeyboardInterrupt"),
    "is no Python": ("1 +", "SyntaxError"),
    "says what is no text": ("raise ValueError('\\ud800\\0')", "ValueError: "),
}


@pytest.mark.parametrize("kind", BAD)
async def test_a_bad_cell_has_a_result_and_the_next_one_works(host: Talk, kind: str) -> None:
    """Whatever ends a cell, its variables from before are there for the next."""
    code, told = BAD[kind]
    await host.run("kept = [1]")
    assert told in await host.fail(code)
    assert await host.run("kept") == "[1]"


async def test_a_cell_may_fork_print_much_and_leave_threads(host: Talk) -> None:
    """The end of its own process is its end. Of the output, head and tail are kept."""
    await host.run("import os; child = os.fork(); own = 1")
    assert await host.run("own") == "1"
    shown = await host.run("import sys\nfor _ in range(400): sys.stdout.write('x' * 2**16)\n'end'")
    assert len(shown) < 60_000
    assert shown.endswith("x'end'")
    await host.run(
        "import threading, time\nt = threading.Thread(target=time.sleep, args=[99]).start()"
    )


async def test_a_cell_that_never_ends_is_ended() -> None:
    """Its time limit is that of commands."""
    async with on_host(limit_s=1) as talk:
        await talk.run("kept = 1")
        assert "the cell took longer than 1 s and was ended" in await talk.fail("while True: pass")
        assert await talk.run("kept") == "1"


STORE = "import os; store = os.environ.get('TMPDIR', '/tmp') + '/durabench-cells'"


async def test_a_deleted_or_changed_store_is_filled_again(host: Talk) -> None:
    """Only the cells run again whose variables are needed, and they leave files as they are."""
    await host.run("a = 1; open('data.txt', 'w').write('made'); None")
    await host.run("b = 2")
    await host.run("c = a + 1")
    await host.shell("echo mine >data.txt")
    await host.run(f"{STORE}; import shutil; shutil.rmtree(store)")
    result = await host.use("cell_run", code="c")
    assert result.output.splitlines() == [
        "cell 1, cell 3 ran again first, because their variables were lost",
        "cell 5: wrote no variable",
        "2",
    ]
    await host.shell(
        "test $(cat data.txt) = mine; cd $TMPDIR/durabench-cells; echo >>$(ls | head -n1)"
    )
    assert (await host.run("a, b, c")).endswith("(1, 2, 2)")


async def test_a_notebook_that_must_not_write_leaves_files_as_they_are() -> None:
    """Its cells may write while they run, and keep their variables."""
    async with on_host(keeps_files=False) as talk:
        await talk.run("open('data.txt', 'w').write('new'); text = open('data.txt').read()")
        await talk.shell("git diff --exit-code")
        assert await talk.run("text") == "'new'"


async def test_a_store_that_cannot_be_written_is_a_clear_result(host: Talk) -> None:
    """Cells run, and each cell makes again what it reads."""
    made = await host.use("cell_run", code=f"{STORE}; open(store, 'w').close(); a = 1")
    assert "`a` is made again by this cell wherever it is used: it cannot be written" in made.output
    assert await host.run("a") == "1"


@pytest.mark.parametrize(
    ("code", "names"),
    [
        ("x = 10; y = x + 5", ""),
        ("y = x + 5; x = 10", "x"),
        ("x += 1", "x"),
        ("d['k'] = v", "d v"),
        ("total = f(x * k for x in xs)", "f k xs"),
        ("import os.path as p\np.join('a', b)", "b"),
        ("def f(a, b=d): c = a; return c + g", "d g"),
        ("if c: x = 1\ny = x", "c x"),
        ("with p as t: u = t\nprint(u)", "p print t u"),
        ("1 +", ""),
        ("\0", ""),
    ],
)
def test_the_text_of_a_cell_tells_what_it_may_need(code: str, names: str) -> None:
    """A name that a statement outside of all blocks binds first is not among them."""
    assert needs(code) == names.split()
