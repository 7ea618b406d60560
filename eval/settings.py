"""Changes of a patch in configuration files that leave the test runners' settings as they are."""

import shlex
from collections import Counter
from collections.abc import Callable

from eval import patches
from eval.official_shell import OfficialShell
from eval.paths import is_test_configuration
from eval.types import Shell

_READ_TIMEOUT_S = 120.0


async def other_settings(
    patch: str, shell: Shell, differ: Callable[[str, bytes, bytes], bool]
) -> frozenset[str]:
    """Return the configuration files that a patch changes without changing how tests run.

    The workspace is one before the patch. `differ` takes the path of a file with its content
    before and after a change, and returns True if they differ in settings of test runners. A
    change that does not fit exactly is not looked into.
    """
    changes = patches.read_or_nothing(patch)
    times = Counter(path for change in changes for path in change.paths)
    found = set()
    for change in changes:
        path = change.path
        is_edit = change.action in ("added", "modified") and not change.is_link
        if is_edit and times[path] == 1 and is_test_configuration(path):
            before = "" if change.action == "added" else await _read_whole(path, shell)
            now = None if before is None else change.apply(before)
            if before is not None and now is not None:
                contents = [text.encode(errors="replace") for text in (before, now)]
                found |= set() if differ(path, *contents) else {path}
    return frozenset(found)


async def _read_whole(path: str, shell: Shell) -> str | None:
    """Return the content of a file; None if it cannot be read as a whole."""
    read = await OfficialShell(shell).run(f"cat -- {shlex.quote(path)}", timeout_s=_READ_TIMEOUT_S)
    return None if read.exit_code != 0 or read.truncated else read.output
