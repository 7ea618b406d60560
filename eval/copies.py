"""Search for copies of a reference patch in an image, outside its repository.

An image can hold the repaired code as a file: an installed release, a build folder, a patch.
Archives and compiled files are not searched.
"""

import shlex
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import NamedTuple

from eval import patches
from eval.errors import ImageError
from eval.official_shell import OfficialShell
from eval.types import GradingShell

_TIMEOUT_S = 300.0
_LEAST_CHARACTERS = 20
_MOST_CHARACTERS = 300
_FILES = 40
_LINES = 4
"""Number of lines of one file of the patch to look for."""
_ENOUGH = 3
"""So many lines together are found by no accident, whatever the name of the file."""
_BEGINS = "--- durabench: copies"

# The first grep finds the few files with any of the lines, and the others count the lines of each
# file of the patch in these. Files that only root can read count, as the agent may be root.
_SCRIPT = """\
set -o pipefail
search() {
  find / -xdev \\( -path /proc -o -path /sys -o -path /dev -o -path "$root" \\) -prune -o \
    -type f -size -4M -print0 2>/dev/null | xargs -0r grep -lIFs -f "$1" --
}
cd -- "$root" && lines=$(mktemp) && printf '%s\\n' "${every[@]}" >"$lines" || exit
echo "$begins"
search "$lines" | grep -vxF -e "$lines" | head -n 1000 | while IFS= read -r path; do
  for ((at = 0; at < ${#every[@]}; at++)); do
    ! grep -qIFs -e "${every[at]}" -- "$path" || printf '%s %s\\n' "$at" "$path"
  done
done
rm -f -- "$lines"
"""


class _Sought(NamedTuple):
    """A file of the patch, and lines that only the patch adds."""

    path: PurePosixPath
    lines: tuple[str, ...]

    def is_copied_in(self, path: str, found: set[str]) -> bool:
        """Return True if a file with these lines is a copy of the repaired file, or of the patch.

        Few lines can be in a file by accident. Then the file has to have the same name, in a folder
        of the same name.
        """
        if not found.issuperset(self.lines):
            return False
        end = PurePosixPath(*self.path.parts[-2:])
        return len(self.lines) >= _ENOUGH or PurePosixPath(path).match(str(end))


async def find_copies(shell: GradingShell, patch: str) -> list[str]:
    """Return the paths of files outside the repository that hold the added lines of a patch.

    Raises:
        ImageError: the image cannot be searched, or not in time.
    """
    official = OfficialShell(shell)
    sought = [each for each in _sought(patch) if each.lines][:_FILES]
    known = await _known(official, [line for each in sought for line in each.lines])
    sought = [
        each._replace(lines=tuple(x for x in each.lines if x not in known)) for each in sought
    ]
    lines = [line for each in sought for line in each.lines]
    holding = dict[str, set[str]]()
    for found in await _run(official, _SCRIPT, lines):
        at, _, path = found.partition(" ")
        holding.setdefault(path, set()).add(lines[int(at)])
    return sorted(
        path
        for path, found in holding.items()
        if any(each.lines and each.is_copied_in(path, found) for each in sought)
    )


def _sought(patch: str) -> Iterator[_Sought]:
    for change in patches.read_or_nothing(patch):
        removed = {line.strip() for line in change.removed}
        lines = {line.strip() for line in change.added} - removed
        long = sorted(
            (line for line in lines if _LEAST_CHARACTERS <= len(line) <= _MOST_CHARACTERS),
            key=lambda line: (-len(line), line),
        )
        yield _Sought(PurePosixPath(change.path), tuple(long[:_LINES]))


async def _known(official: OfficialShell, lines: list[str]) -> set[str]:
    """Return the lines that the repository has already."""
    script = """\
cd -- "$root" || exit
echo "$begins"
printf '%s\\n' "${every[@]}" | grep -rhoIFs --exclude-dir=.git -f - . | sort -u
"""
    return set(await _run(official, script, lines))


async def _run(official: OfficialShell, script: str, lines: list[str]) -> list[str]:
    """Return the lines that a script prints, which gets `lines` as its array `every`."""
    if not lines:
        return []
    settings = (
        f"root={shlex.quote(official.root)} begins={shlex.quote(_BEGINS)}\n"
        f"export LC_ALL=C\nevery=({shlex.join(lines)})\n"
    )
    done = await official.run(
        f"/bin/bash -c {shlex.quote(settings + script)}", timeout_s=_TIMEOUT_S
    )
    if done.timed_out or _BEGINS not in done.output:
        reason = "it took too long" if done.timed_out else done.output.strip()[-200:]
        raise ImageError(f"the image could not be searched for copies of the patch: {reason}")
    return done.output.partition(f"{_BEGINS}\n")[2].splitlines()
