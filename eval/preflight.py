"""Preflight: check that an instance's image can be trusted, before money is spent on it.

These conditions must hold: git has nothing newer than the base commit, no file outside the
repository holds the lines of the reference patch, that patch is resolved, and the empty one is not.
Such a file can be an installed release, a build folder or a patch. Archives and compiled files are
not searched.
"""

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import PurePosixPath
from typing import NamedTuple

from eval import grading, harness, history, patches
from eval.digests import canonical_digest
from eval.errors import ImageError
from eval.official_shell import OfficialShell
from eval.types import Evaluation, GradingShell, Instance, OpenShell

_TIMEOUT_S = 300.0
_LEAST_CHARACTERS = 20
_MOST_CHARACTERS = 300
_FILES = 40
_LINES = 4
"""Number of lines of one file of the patch to look for."""
_ENOUGH = 3
"""So many lines together are found by no accident, whatever the name of the file."""

# The first grep finds the few files with any of the lines, and the next ones look for each line in
# these. Files that only root can read count, as the agent may be root.
_PREPARE = """\
set -o pipefail
search() {
  find / -xdev \\( -path /proc -o -path /sys -o -path /dev -o -path "$root" \\) -prune -o \
    -type f -size -4M -print0 2>/dev/null | xargs -0r grep -lIFs -f "$1" --
}
export LC_ALL=C
cd -- "$root" && lines=$(mktemp) && printf '%s\\n' "${every[@]}" >"$lines" || exit
"""
_SEARCH = """\
search "$lines" | grep -vxF -e "$lines" | head -n 1000 | while IFS= read -r path; do
  for ((at = 0; at < ${#every[@]}; at++)); do
    ! grep -qIFs -e "${every[at]}" -- "$path" || printf '%s %s\\n' "$at" "$path"
  done
done
rm -f -- "$lines"
"""
_GREP_REPOSITORY = """\
grep -rhoIFs --exclude-dir=.git -f "$lines" . | sort -u
rm -f -- "$lines"
"""


class _Excerpt(NamedTuple):
    """A file of the patch, and lines that only the patch adds."""

    path: PurePosixPath
    lines: tuple[str, ...]

    def is_copied_in(self, path: str, lines: set[str]) -> bool:
        """Return True if a file with these lines is a copy of the repaired file, or of the patch.

        Few lines can be in a file by accident. Then the file must have the same name, in a folder
        of the same name.
        """
        if not self.lines or not lines.issuperset(self.lines):
            return False
        end = PurePosixPath(*self.path.parts[-2:])
        return len(self.lines) >= _ENOUGH or PurePosixPath(path).match(str(end))


async def find_copies(shell: GradingShell, patch: str) -> list[str]:
    """Return the paths of files outside the repository that hold the added lines of a patch.

    Raises:
        ImageError: the image cannot be searched, or not in time.
    """
    official = OfficialShell(shell)
    excerpts = _read_excerpts(patch)[:_FILES]
    lines = [line for excerpt in excerpts for line in excerpt.lines]
    in_repository = set(await _run(official, _GREP_REPOSITORY, lines))
    excerpts = [
        excerpt._replace(lines=tuple(x for x in excerpt.lines if x not in in_repository))
        for excerpt in excerpts
    ]
    lines = [line for excerpt in excerpts for line in excerpt.lines]
    lines_of = dict[str, set[str]]()
    for output in await _run(official, _SEARCH, lines):
        number, _, path = output.partition(" ")
        lines_of.setdefault(path, set()).add(lines[int(number)])
    return sorted(
        path
        for path, present in lines_of.items()
        if any(excerpt.is_copied_in(path, present) for excerpt in excerpts)
    )


def _read_excerpts(patch: str) -> list[_Excerpt]:
    excerpts = []
    for change in patches.read_or_nothing(patch):
        removed = {line.strip() for line in change.removed}
        lines = {line.strip() for line in change.added} - removed
        long = sorted(
            (line for line in lines if _LEAST_CHARACTERS <= len(line) <= _MOST_CHARACTERS),
            key=lambda line: (-len(line), line),
        )
        if long:
            excerpts.append(_Excerpt(PurePosixPath(change.path), tuple(long[:_LINES])))
    return excerpts


async def _run(official: OfficialShell, command: str, lines: list[str]) -> list[str]:
    """Return the output lines of a command, which gets `lines` as its array `every`."""
    if not lines:
        return []
    script = f"every=({shlex.join(lines)})\n{_PREPARE}"
    root = {"root": official.root}
    done, output = await official.call(script, command, root, timeout_s=_TIMEOUT_S)
    if done.timed_out or output is None:
        reason = "it took too long" if done.timed_out else done.output.strip()[-200:]
        raise ImageError(f"the image could not be searched for copies of the patch: {reason}")
    return output


TIMEOUT_S = 1800.0
"""Limit of the tests. The experiment's own limit does not apply, as images are checked once."""

_PROCEDURE = 3
"""Version of this procedure.

Increment it with every change here or in `eval.history` that can change a preflight.
"""


@dataclass(frozen=True)
class Preflight:
    """Result of the check of one image."""

    instance_id: str
    reasons: tuple[str, ...]
    """Problems of the image, each with its kind in front. Empty if the image is fit."""
    checked_at: datetime
    harness_version: str

    @property
    def passed(self) -> bool:
        """True if the image is fit."""
        return not self.reasons


async def check(
    instance: Instance,
    open_shell: OpenShell,
    open_apart: OpenShell | None = None,
    open_for_arm: OpenShell | None = None,
) -> Preflight:
    """Check one image, in fresh workspaces: one as arms get it, and two as gradings do.

    `open_apart` is for `grading.grade`.

    Raises:
        ImageError: infrastructure failed, so that nothing was checked.
    """
    checked_at = datetime.now(UTC)
    async with (open_for_arm or open_shell)() as shell:
        reasons = [str(leak) for leak in await history.inspect(shell, instance.base_commit)]
        if shell.environment == "docker":
            copies = await find_copies(shell, instance.patch)
            reasons += [f"copy: {path} has the lines of the reference patch" for path in copies[:3]]
    async with open_shell() as shell:
        null = await _grade(instance, "", shell, open_apart)
    if null.resolved:
        reasons.append("null: the tests pass without any patch")
    if instance.solution:  # its reference is a script, which only the arm `gold` runs
        return Preflight(instance.instance_id, tuple(reasons), checked_at, harness.version())
    async with open_shell() as shell:
        gold = await _grade(instance, instance.patch, shell, open_apart)
    if not gold.resolved:
        reasons.append(f"gold: the reference patch is {gold.outcome}: {gold.reason}")
    return Preflight(instance.instance_id, tuple(reasons), checked_at, harness.version())


def preflight_key(
    instance: Instance,
    image_digest: str,
    *,
    network: bool,
    resources: Mapping[str, float] = {},
) -> str:
    """Return a SHA-256 that changes whenever the result could change.

    It covers the image's digest, the row, the network and the `resources` that tests may need,
    if they differ from the default, the swebench release and the procedures.
    """
    verdict = grading.grading_key(instance, image_digest, "", TIMEOUT_S, "docker", resources)
    parts = {"verdict": verdict, "network": network, "procedure": _PROCEDURE}
    return canonical_digest(parts)


async def _grade(
    instance: Instance, patch: str, shell: GradingShell, open_apart: OpenShell | None
) -> Evaluation:
    evaluation = await grading.grade(
        instance, patch, shell, open_apart=open_apart, timeout_s=TIMEOUT_S
    )
    if evaluation.outcome == "infrastructure":
        raise ImageError(f"{instance.instance_id} cannot be checked: {evaluation.reason}")
    return evaluation
