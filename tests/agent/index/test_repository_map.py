"""The repository map: its contents for a task, and its budget."""

import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.index.repository_map import draw
from agent.index.symbols import SymbolIndex
from agent.models.chat import tokens
from eval.upstream import checkout

pytestmark = pytest.mark.sampled(3)

PROJECT = Path(__file__).parents[3]
TASKS = PROJECT / "eval" / "tasks" / "tasks"


def read(root: Path, pattern: str = "*") -> dict[str, str]:
    """Return the text files below a folder."""
    return {
        str(path.relative_to(root)): path.read_text(errors="replace")
        for path in sorted(root.rglob(pattern))
        if path.is_file() and ".git" not in path.parts and "__pycache__" not in path.parts
    }


def make(texts: Mapping[str, str], task: str, budget_tokens: int) -> str:
    return draw(texts, SymbolIndex(texts), task, budget_tokens)


SHOP = {
    "shop/__init__.py": '"""A shop."""\nfrom shop.cart import Cart\n',
    "shop/cart.py": '"""What is bought."""\n\n\nclass Cart:\n    """Things and prices."""\n\n'
    "    def add(self, thing, price): ...\n\n    def total_price(self) -> int:\n"
    '        """The sum."""\n\n    def _round(self): ...\n\n\nLIMIT = 3\n',
    "shop/mail.py": "def send(to):\n    def inner(): ...\n",
    "shop/broken.py": "def broken(:\n",
    "web/app.js": "export function start() {}\n",
    "docs/a.md": "# A\n",
    "docs/b.md": "# B\n",
    "tests/test_cart.py": "from shop import Cart\n\n\ndef test_add():\n    Cart().add(1, 2)\n",
    "tests/data/prices.csv": "1,2\n",
}


def test_the_whole_of_a_small_repository() -> None:
    """The map lists definitions by file and class, then tests, then other files by folder."""
    assert (
        make(SHOP, "total_price() of a Cart is wrong", 2000)
        == """\
shop/cart.py: What is bought.
     4 class Cart  # Things and prices.
     7   def add(self, thing, price)
     9   def total_price(self) -> int  # The sum.
    12   def _round(self)
    15 LIMIT = 3
shop/__init__.py: A shop.
shop/broken.py: does not parse, line 1: invalid syntax
shop/mail.py
     1 def send(to)
docs/a.md
docs/b.md
web/app.js

Tests: 1 files
tests/test_cart.py
"""
    )


def test_the_subject_of_the_task_comes_first_on_a_small_map() -> None:
    """A small map shows the method that the task names and counts what is left out."""
    found = make(SHOP, "total_price() of a Cart is wrong", 55)
    assert "class Cart" in found
    assert "def total_price" in found
    assert "_round" not in found
    assert "Tests: 1 files\ntests/test_cart.py\n" in found
    assert "Not shown: 6 files" in found


def test_files_left_out_are_named_or_counted_by_folder() -> None:
    """Files that are left out are named, or counted by folder if there is less room."""
    texts = {f"docs/part{n % 3}/page{n}.md": "# Page\n" for n in range(60)}
    texts["src/code.py"] = "".join(f"def function_{n}(): ...\n" for n in range(100))
    assert "Not shown: 60 files: docs/part0/ 20, docs/part1/ 20, docs/part2/ 20\n" in make(
        texts, "function", 300
    )
    assert "Not shown: 60 files: docs/ 60\n" in make(texts, "function", 100)
    some = make(SHOP, "total_price() of a Cart is wrong", 90)
    assert "Not shown: 5 files: docs/a.md, docs/b.md, shop/broken.py, " in some


@pytest.mark.parametrize(
    "task",
    [
        "look at shop/mail.py",
        'File "/usr/lib/python3/site-packages/shop/mail.py", line 1, in somewhere',
        "shop.mail is broken",
        "see mail.py",
        "`send` does nothing",
    ],
)
def test_a_file_or_name_that_the_task_gives_is_first(task: str) -> None:
    """A file is first if the task names its path, its module or one of its definitions."""
    assert make(SHOP, task, 500).startswith("shop/mail.py")


def test_much_used_definitions_come_before_unused_ones() -> None:
    """If the task says nothing, files whose definitions are used more often come first."""
    texts = {
        "a.py": "def lonely(): ...\n",
        "b.py": "def popular(): ...\n",
        **{f"use{number}.py": "from b import popular\npopular()\n" for number in range(9)},
    }
    assert make(texts, "", 500).startswith("b.py")


def test_many_tests_are_counted_by_folder_after_the_likeliest() -> None:
    """The most relevant tests are named. The rest are only counted, which leaves room for code."""
    texts = {
        **{f"tests/area{n % 7}/test_thing{n}.py": "" for n in range(1000)},
        "tests/area1/test_cart.py": "from shop import Cart\n",
        "shop.py": "class Cart: ...\n",
    }
    found = make(texts, "Cart is wrong", 600)
    section = found[found.index("Tests: 1001 files") :]
    assert section.splitlines()[1] == "tests/area1/test_cart.py"
    assert "tests/area6/ 1" in section
    assert tokens([{"content": found}]) <= 600


def test_line_breaks_in_names_stay_out_of_the_map() -> None:
    """A path with a line break takes one line on the map."""
    assert make({"odd\nname.py": "def f(): ..."}, "", 100).startswith("odd name.py\n")


NAMES = st.text(alphabet="abé_.\n -", min_size=1, max_size=40).filter(
    lambda name: name not in (".", "..")
)
PATHS = st.one_of(
    NAMES,
    st.lists(NAMES, min_size=1, max_size=5).map("/".join),
    NAMES.map(lambda name: f"{name}.py"),
    NAMES.map(lambda name: f"tests/test_{name}.py"),
    NAMES.map(lambda name: f"src/{name}/x/y/z.py"),
)
CODE = st.sampled_from(
    [
        "",
        "def f(a, b): ...\n",
        "class C:\n    '''Doc.'''\n    def m(self): ...\n    def n(self): ...\n" * 3,
        "def " + "long" * 100 + "(): ...\n",
        "not python (\n",
        "x = 1\n" * 50,
    ]
)


@settings(max_examples=150)
@given(
    texts=st.dictionaries(PATHS, CODE, max_size=30),
    task=st.text(max_size=200),
    budget=st.integers(min_value=-5, max_value=600),
    seed=st.integers(min_value=0, max_value=9),
)
def test_never_over_the_budget_and_always_the_same(
    texts: dict[str, str], task: str, budget: int, seed: int
) -> None:
    """The map never exceeds its budget and does not depend on the order of the files."""
    found = make(texts, task, budget)
    assert len(found) <= 4 * max(0, budget)
    assert tokens([{"content": found}]) <= max(0, budget)
    shuffled = list(texts.items())
    random.Random(seed).shuffle(shuffled)
    assert make(dict(shuffled), task, budget) == found


IN_A_PROCESS = """
import json, sys
from agent.index import SymbolIndex, draw
texts = json.load(sys.stdin)
index = SymbolIndex(texts)
print(draw(texts, index, "the reader's total of names, text and tokens is wrong", 3000))
for symbol in ("read", "run", "search", "Definition", "SymbolIndex.callers"):
    print(index.callers(symbol), index.callees(symbol))
"""


def test_the_same_in_every_process() -> None:
    """Answers are the same in every process, although Python orders sets of strings differently."""
    texts = json.dumps(read(PROJECT / "agent" / "index", "*.py"))
    outputs = [
        subprocess.run(
            [sys.executable, "-c", IN_A_PROCESS],
            cwd=PROJECT,
            env={**os.environ, "PYTHONHASHSEED": str(seed)},
            input=texts,
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in range(4)
    ]
    assert len(set(outputs)) == 1
    assert "symbols.py" in outputs[0]


def task_ids() -> list[str]:
    return sorted(path.name for path in TASKS.iterdir())


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("upstream")


@pytest.mark.parametrize("task_id", task_ids())
def test_the_file_to_change_is_on_the_map_of_a_bundled_task(
    task_id: str, cache: Path, tmp_path: Path
) -> None:
    """Every file that the reference patch changes, apart from `__init__.py`, is on a map of half
    the size that shows all files."""
    row = yaml.safe_load((TASKS / task_id / "task.yaml").read_text())
    checkout(row["repo"], row["base_commit"], tmp_path / "repo", cache)
    texts = read(tmp_path / "repo")
    statement = (TASKS / task_id / "problem_statement.md").read_text()
    whole = tokens([{"content": make(texts, statement, 100_000)}])
    found = make(texts, statement, whole // 2)
    patch = (TASKS / task_id / "gold.patch").read_text().splitlines()
    changed = [line.removeprefix("--- a/") for line in patch if line.startswith("--- a/")]
    code = [path for path in changed if path.endswith(".py") and "__init__" not in path]
    shown = [path for path in code if f"{path}:" in found or f"{path}\n" in found]
    assert shown == code


def test_this_project_is_indexed_and_drawn_quickly() -> None:
    """All of the agent's own source parses, and is indexed and drawn within seconds."""
    texts = {f"agent/{path}": text for path, text in read(PROJECT / "agent", "*.py").items()}
    began = time.process_time()
    index = SymbolIndex(texts)
    indexed_s = time.process_time() - began
    found = draw(texts, index, "read_sources() forgets files in the agent's index", 1000)
    assert not any(map(index.unparsed, index.paths))
    assert indexed_s < 2
    assert time.process_time() - began < 4
    assert found.startswith("agent/index/")
    assert "def read_sources" in found
