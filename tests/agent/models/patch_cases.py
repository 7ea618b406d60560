"""Small repositories with patches of every kind that git writes."""

import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

Tree = dict[str, bytes | None]
"""File contents by path; None deletes the file."""

MODULE = b"""\
import os


def first(items):
    if len(items) == 0:
        return None
    return items[0]


def middle():
    return [line for line in range(10)]


def nothing():
    pass


def more():
    pass


def last(items, default=None):
    return items[-1]
"""

FIXED = MODULE.replace(b"if len(items) == 0:", b"if items is None or len(items) == 0:").replace(
    b"    return items[-1]\n", b"    if not items:\n        return default\n    return items[-1]\n"
)


@dataclass(frozen=True)
class Case:
    """A base tree and the changes that the patch makes to it."""

    name: str
    base: Tree
    changes: Tree


CASES = [
    Case("two hunks", {"pkg/a.py": MODULE}, {"pkg/a.py": FIXED}),
    Case("one line", {"a.py": b"x = 1\n"}, {"a.py": b"x = compute(2)\n"}),
    Case("crlf", {"a.py": MODULE.replace(b"\n", b"\r\n")}, {"a.py": FIXED.replace(b"\n", b"\r\n")}),
    Case("two files", {"a.py": MODULE, "b.py": b"y = 1\n"}, {"a.py": FIXED, "b.py": b"y = 2\n"}),
    Case("new file", {"a.py": MODULE}, {"new/b.py": b"def f(x):\n    return x > 3\n"}),
    Case("new file of one line", {"a.py": b"\n"}, {"b.py": b"from a import *\n"}),
    Case("deleted file", {"a.py": MODULE, "b.py": b"1\n"}, {"a.py": None}),
    Case("deleted with change", {"a.py": MODULE, "b.py": b"1\n"}, {"a.py": FIXED, "b.py": None}),
    Case("deleted line", {"a.py": MODULE}, {"a.py": MODULE.replace(b"import os\n", b"")}),
    Case("deleted file of one line", {"a.py": b"1\n", "b.py": b"1\n"}, {"a.py": None}),
    Case("no final newline before", {"a.py": b"x = 1\ny = 2"}, {"a.py": b"x = 1\ny = 3\n"}),
    Case("no final newline after", {"a.py": b"x = 1\ny = 2\n"}, {"a.py": b"x = 1\nz = 0\ny = 3"}),
    Case("non-ascii", {"größe é.py": "s = 'ä'\n".encode()}, {"größe é.py": "s = 'ö'\n".encode()}),
    Case("latin-1", {"a.py": b"s = '\xe4' == 1\n"}, {"a.py": b"s = '\xf6' == 1\n"}),
    Case("form feed", {"a.py": b"a\n\x0c\nb = 1\n"}, {"a.py": b"a\n\x0c\nb = 2\x0c\n"}),
    Case("prose", {"README.md": b"One.\n"}, {"README.md": b"Two.\n"}),
    Case("binary", {"a.bin": b"\0\1"}, {"a.bin": b"\0\2\3"}),
    Case("renamed", {"a.py": MODULE}, {"a.py": None, "b.py": MODULE}),
    Case("empty file", {"a.py": b"1\n"}, {"pkg/__init__.py": b""}),
    Case("looks like a header", {"a.sql": b"-- old\nx\n"}, {"a.sql": b"++ new\nx\n"}),
]

_SAMPLE = {"two hunks", "crlf", "deleted with change", "non-ascii", "binary", "renamed"}

KINDS = [
    pytest.param(case, id=case.name, marks=() if case.name in _SAMPLE else pytest.mark.full)
    for case in CASES
]
"""All cases. Those that differ most run in every test run."""


def git(repo: Path, *arguments: str, stdin: bytes = b"") -> bytes:
    """Run git without the user's own configuration."""
    identity = ("-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "core.autocrlf=false")
    command = ["git", *identity, *arguments]
    done = subprocess.run(command, cwd=repo, input=stdin, capture_output=True)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout


def put(repo: Path, tree: Tree) -> None:
    for name, content in tree.items():
        path = repo / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True) if content is None else path.write_bytes(content)


def make(case: Case, repo: Path) -> str:
    """Create a repository at the case's base commit. Return its patch as text."""
    repo.mkdir(parents=True)
    git(repo, "init", "-q")
    put(repo, case.base)
    git(repo, "add", "-A")
    git(repo, "commit", "-qm", "base")
    put(repo, case.changes)
    git(repo, "add", "-A")
    patch = git(repo, "diff", "--cached", "--binary", "-M")
    git(repo, "reset", "-q", "--hard")
    return patch.decode("utf-8", "surrogateescape")


def tree_after(repo: Path, patch: str) -> str:
    """Return the id of the tree that the patch makes. The repository is left at its base commit."""
    git(repo, "apply", "--index", "--whitespace=nowarn", stdin=_bytes(patch))
    tree = git(repo, "write-tree").decode().strip()
    git(repo, "reset", "-q", "--hard")
    return tree


def _bytes(patch: str) -> bytes:
    return patch.encode("utf-8", "surrogateescape")
