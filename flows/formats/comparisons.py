"""The comparisons of imported arms that a report counts as declared."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from flows.display.errors import UsageError
from flows.storage.lake import Row


@dataclass(frozen=True)
class Comparisons:
    """Declared comparisons. Each is text of the form BASELINE:CANDIDATE."""

    primary: str
    margin: float | None = None
    """Largest loss at which the primary candidate still counts as not worse, as a share."""
    family: tuple[str, ...] = ()


def given(primary: str | None, margin: float | None, family: Sequence[str]) -> Comparisons | None:
    """Return the comparisons of the command line; None if there is none.

    Raises:
        UsageError: a margin or a family has no primary comparison, or the margin is no share.
    """
    if primary is None:
        if margin is not None or family:
            raise UsageError("a margin and a family need --primary BASELINE:CANDIDATE")
        return None
    if margin is not None and not 0 < margin < 1:
        raise UsageError(f"--margin {margin:g} is no share: 0.05 is five percentage points")
    return Comparisons(primary, margin, tuple(family))


def columns(comparisons: Comparisons, names: Iterable[tuple[str, str | None]]) -> Row:
    """Return the columns of `experiments` that declare comparisons of arms.

    `names` has the name of each arm and its label, and a comparison may use either.

    Raises:
        UsageError: a comparison is not of two of these arms, or is declared twice.
    """
    known = {label: name for name, label in names if label}
    known |= {name: name for name in known.values()}
    pairs = [_pair(text, known) for text in (comparisons.primary, *comparisons.family)]
    if len({frozenset(pair) for pair in pairs}) < len(pairs):
        raise UsageError("a comparison is declared twice: name each pair of arms once")
    (baseline, candidate), *family = pairs
    return {
        "primary_baseline": baseline,
        "primary_candidate": candidate,
        "primary_margin": comparisons.margin,
        "family": [{"baseline": first, "candidate": second} for first, second in family],
    }


def _pair(text: str, known: dict[str, str]) -> tuple[str, str]:
    """Return the names of two arms. A label may contain a colon itself."""
    parts = text.split(":")
    for cut in range(1, len(parts)):
        baseline, candidate = (
            known.get(":".join(half).strip()) for half in (parts[:cut], parts[cut:])
        )
        if baseline and candidate and baseline != candidate:
            return baseline, candidate
    raise UsageError(
        f"{text!r} names no two different arms: write BASELINE:CANDIDATE, of "
        f"{', '.join(sorted(set(known.values())))}"
    )


NONE: Row = {
    "primary_baseline": None,
    "primary_candidate": None,
    "primary_margin": None,
    "family": [],
}
"""These columns if nothing is declared."""
