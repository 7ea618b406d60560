"""Draws of a change: the reference patch or a damaged one. Tries of one attempt are correlated.

A whole task of n files, done once, is right with the probability `skill`. A part of k of these
files is therefore right with `skill ** (k / n)`.
"""

import shlex
from dataclasses import dataclass

from agent.models.damage import damage
from agent.models.patches import FilePatch, parse, render
from agent.models.simulated.draws import Draws
from agent.models.simulated.reference import Reference
from agent.models.spec import SimulatedSpec


@dataclass(frozen=True)
class Drawn:
    """A change that is about to be made."""

    patch: str
    right: bool


def drawn(
    reference: Reference, files: list[FilePatch], draws: Draws, spec: SimulatedSpec, place: str = ""
) -> Drawn:
    """Return the change of some files of the reference patch.

    Each `place` is another try, and the attempt's first one has the empty name. With the
    probability `correlation`, another try equals the first.
    """
    whole = len(files) == len(reference.files)
    names = ",".join(file.name for file in files)
    own = f"{place}/{names}/"
    if not place or draws.hits(spec.correlation, f"{own}correlation"):
        own = "" if whole else f"first/{names}/"
    patch = reference.task.reference_patch if whole else render(files)
    right = draws.hits(spec.skill ** (len(files) / len(reference.files)), f"{own}skill")
    return Drawn(patch if right else damage(patch, draws.rng(f"{own}damage")), right)


def undoing_command(patch: str) -> str:
    """Return the shell command that takes a change back to the last commit."""
    files = parse(patch)
    old = sorted({file.old_path for file in files if file.old_path})
    new = sorted({path for file in files for path in file.paths} - set(old))
    commands = [f"git checkout -q HEAD -- {shlex.join(old)}"] if old else []
    commands += [f"rm -f -- {shlex.join(new)}"] if new else []
    return " && ".join(commands)
