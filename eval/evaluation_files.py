"""The files that an evaluation runs or supplies, and a watch over them while the tests run.

The watch is two lines of the eval script, which print nothing. The code under test runs in the same
container, as root. So it can read the test files themselves, as any runner has to, and a program
made for it could deceive the watch.
"""

import re
import shlex
from collections.abc import Collection
from pathlib import PurePosixPath

from eval import harness, patches
from eval.types import Instance

_HEREDOC = re.compile(r"<<-?\s*(['\"]?)(\w+)\1\n.*?^\2$", re.DOTALL | re.MULTILINE)
_WORD = re.compile(r"[^\s'\";=<>|&()]+")

# Runners of tests write snapshots and other data next to them, but no source.
_SOURCES = frozenset(
    {
        *(".c", ".cc", ".cjs", ".cpp", ".go", ".java", ".js", ".jsx", ".kt", ".mjs", ".php"),
        *(".py", ".rb", ".rs", ".scala", ".ts", ".tsx"),
    }
)
_BEGINS, _ENDS = "--- durabench: tests", "--- durabench: end"
_FIELDS = 3
"""Of a line of the record before the path: date, time and zone."""


def run_by_evaluation(instance: Instance) -> frozenset[str]:
    """Return possible paths in the commands between the two markers of the eval script."""
    start, end = harness.log_markers()
    _, _, after = _HEREDOC.sub("", instance.eval_script).partition(start)
    commands = after.partition(end)[0]
    return frozenset(word.removeprefix("./") for word in _WORD.findall(commands))


def list_evaluation_files(instance: Instance) -> frozenset[str]:
    """Return the files that the evaluation overwrites with the state of its test patch."""
    changes = patches.read_or_nothing(instance.test_patch)
    return frozenset(path for change in changes for path in change.paths)


def tests_of_evaluation(instance: Instance) -> list[str]:
    """Return the possible paths of source files with the tests of the evaluation."""
    run = {word.partition("::")[0] for word in run_by_evaluation(instance)}
    paths = run | list_evaluation_files(instance)
    return sorted(path for path in paths if PurePosixPath(path).suffix in _SOURCES)


def watch(script: str, files: Collection[str], *, script_file: str, record: str) -> str:
    """Return an eval script that records which of its files change while the tests run.

    `files` are absolute paths. The time of change of an inode also reveals a file that was put
    back. When the tests start, the text of the script so far is gone from `script_file`, with the
    expected values. A script whose markers are not separate lines is returned unchanged.
    """
    start, end = (_marker_lines(marker, script) for marker in harness.log_markers())
    if len(start) != 1 or len(end) != 1 or start[0] > end[0]:
        return script
    before, tests, after = script[: start[0]], script[start[0] : end[0]], script[end[0] :]
    # Bash has read this part, and continues reading at the same place.
    size = len(before.encode("utf-8", "surrogateescape"))
    look = f"stat -c '%z %n' -- {shlex.join(files)} | LC_ALL=C sort"
    begin = (
        f"{{ durabench_tests=$({look}) || :; head -c {size} /dev/zero | tr '\\0' '\\n' "
        f"1<>{shlex.quote(script_file)} || :; }} 2>/dev/null\n"
    )
    compare = (
        f"{{ {{ echo {_BEGINS}; "
        f'LC_ALL=C comm -23 <(printf "%s\\n" "$durabench_tests") <({look}); '
        f"echo {_ENDS}; }} >{shlex.quote(record)} || :; }} 2>/dev/null\n"
    )
    return "".join([before, begin, tests, compare, after])


def is_watched(script: str) -> bool:
    """Return True if `watch` can watch the tests of a script."""
    return watch(script, (), script_file="", record="") != script


def read_record(record: str, root: str) -> tuple[str, ...]:
    """Return the files that changed according to a record, relative to `root`.

    A missing or incomplete record counts as one: no honest test removes it.
    """
    lines = [line for line in record.rpartition(_BEGINS)[2].splitlines() if line]
    if lines[-1:] != [_ENDS]:
        return ("the record of them",)
    return tuple(line.split(" ", _FIELDS)[-1].removeprefix(f"{root}/") for line in lines[:-1])


def _marker_lines(marker: str, script: str) -> list[int]:
    """Return where the lines of a script begin that do nothing but print a marker."""
    heredocs = [range(*match.span()) for match in _HEREDOC.finditer(script)]
    line = re.compile(rf"^[ \t]*(?::|echo) (['\"]){re.escape(marker)}\1[ \t]*$", re.MULTILINE)
    starts = (match.start() for match in line.finditer(script))
    return [start for start in starts if not any(start in heredoc for heredoc in heredocs)]
