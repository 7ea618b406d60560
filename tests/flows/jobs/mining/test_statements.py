"""The statement of a change."""

import subprocess
from pathlib import Path

from eval import git, repositories
from flows.jobs.mining.statements import read_text, write_statement
from tests.flows.jobs.conftest import NAME
from tests.servers.forge import Forge

TEXT = """\
Merge pull request #7 from ada/rounding

Round halves up in `total` (#7)

Prices were rounded to even, as round_half_even in calc.py does it. Now
round_half_up of rounding_rules.py is used, behind the option round_to:

    value = value.quantize(CENT, ROUND_HALF_UP)

```diff
+anything
```
The difference is a cent.

Co-authored-by: Bob <bob@example.org>
"""
STATEMENT = """\
Round halves up in `total`

Prices were rounded to even, as round_half_even in calc.py does it. Now
… of … is used, behind the option round_to:

The difference is a cent."""


def test_a_statement_says_nothing_of_the_patch(tmp_path: Path) -> None:
    """Names of the base and names that the tests use stay, all else of the patch goes."""
    files = {
        "calc.py": "def round_half_even(): ...\n",
        "test_calc.py": "",
        "rounding_rules.py": "def round_half_up(value, round_to):\n"
        "    value = value.quantize(CENT, ROUND_HALF_UP)\n",
    }
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    (tmp_path / "calc.py").write_text(files["calc.py"])
    git.git(tmp_path, "add", ".")
    git.git(tmp_path, "commit", "-qm", "base")
    for name, text in files.items():
        (tmp_path / name).write_text(text or "total(1, round_to=2)\n")
    git.git(tmp_path, "add", ".")
    git.git(tmp_path, "commit", "-qm", "change")
    patch = git.diff(tmp_path, "HEAD~", "HEAD", ["rounding_rules.py"])
    tests = git.diff(tmp_path, "HEAD~", "HEAD", ["test_calc.py"])
    written = write_statement(TEXT, patch, tests, tmp_path, "HEAD~")
    assert (written.text, written.warning) == (STATEMENT, "")
    assert write_statement("Fix (#8)", patch, tests, tmp_path, "HEAD~").warning


def test_the_pull_request_has_the_text(forge: Forge) -> None:
    """The message stands in for a pull request that the forge does not have."""
    source = repositories.source(NAME, forge.url)
    forge.issues[NAME, 7] = {"number": 7, "title": "Round up", "body": "Halves."}
    assert read_text("Round (#7)\n\nwip", source) == "Round up\n\nHalves."
    assert read_text("Merge pull request #7 from a/b", source) == "Round up\n\nHalves."
    assert read_text("Round (#8)", source) == "Round (#8)"
    assert read_text("Round", source) == "Round"
