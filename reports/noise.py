"""Types of where the noise of a comparison comes from."""

from dataclasses import dataclass
from math import sqrt


@dataclass(frozen=True)
class Split:
    """The variance of a value in two parts, which add up to that of a single value, above 0."""

    between: float
    """Between instances."""
    within: float
    """Between the repeats of an instance."""

    @property
    def total(self) -> float:
        """Variance of a single value."""
        return self.between + self.within

    @property
    def correlation(self) -> float:
        """Similarity of the values of an instance: 0 as by chance, 1 all the same, ICC(1).

        Shrout, P. E. and Fleiss, J. L. (1979). Intraclass correlations: uses in assessing rater
        reliability. Psychological Bulletin 86, 420-428.
        """
        return self.between / self.total

    def standard_error(self, instances: float, repeats: float) -> float:
        """Return that of the mean over so many instances with so many repeats each.

        `repeats` may be infinite.
        """
        return sqrt((self.between + self.within / repeats) / instances)


@dataclass(frozen=True)
class Noise:
    """The variance of the paired difference at a cell of the leading comparison, in parts."""

    instances: int
    """Instances of the comparison; 0 without one."""
    repeats: int
    split: Split | None
    """None without repeats, without a comparison or if no pair of cells differs."""
    grading: float | None
    """The part within instances that is between gradings of one patch. None if no patch of one of
    the arms was graded more than once."""
    graded_again: int
    """Patches of both arms behind that number."""
    telling: tuple[str, ...]
    """Instances that some but not all attempts resolve, by id."""
    runs: int
    """Number of attempts at an instance behind that choice, at most."""
