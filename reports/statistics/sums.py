"""The exact distribution of the sum of all leads, under a model of two arms."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from math import exp, log, sqrt
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Turns = NDArray[np.complex128]

_STEEPEST = 30.0
_STEEPEST_INSTANCE = 300.0
"""Largest tilts of a pair and of an instance, as exponents: no factor overflows."""

_TILT_STEPS = 20

_DEVIATIONS = 20
"""Width of the window in standard deviations. What is outside of it is beyond all rounding."""


class Tails(NamedTuple):
    """Chances of a sum as large, and of one as small, as the one in question."""

    at_least: float
    at_most: float


@dataclass(frozen=True)
class SumsModel:
    """Two arms over instances with repeats.

    A pair of cells has a lead of -1, 0 or 1. With the chance `alike`, all pairs of an instance are
    copies of one pair; otherwise they are independent of each other. So `alike` is the correlation
    of the leads of two pairs of one instance.

    Lunn, A. D. and Davies, S. J. (1998). A note on generating correlated binary variables.
    Biometrika 85, 487-490.
    """

    only_baseline: float
    """Chance that only the baseline resolves a pair of cells."""
    only_candidate: float
    alike: float
    sizes: Mapping[int, int]
    """Number of instances by their number of pairs, which is above 0."""

    @property
    def neither_leads(self) -> float:
        """Chance that both arms or none resolve a pair of cells."""
        return max(0.0, 1.0 - self.only_baseline - self.only_candidate)

    @property
    def variance(self) -> float:
        """Variance of the lead of a pair."""
        difference = self.only_candidate - self.only_baseline
        return self.only_candidate + self.only_baseline - difference**2

    @cached_property
    def pairs(self) -> int:
        """Number of all pairs."""
        return sum(size * instances for size, instances in self.sizes.items())

    def tails(self, total: int) -> Tails:
        """Return the chances that the sum of all leads is at least, and at most, `total`.

        They are exact: the distribution is the inverse Fourier transform of its characteristic
        function. It is tilted to have its mean near `total`, so that a chance of 1e-100 has as
        many correct digits as one of 0.1.

        Keich, U. (2005). sFFT: a faster accurate computation of the p-value of the entropy score.
        Journal of Computational Biology 12, 416-430.
        """
        import numpy as np

        tilt = self._tilt(total)
        width = self._width(tilt)
        turns = _turns(width)
        shift = turns.conj() if total > 0 else turns
        transform, scale = _power(shift, abs(total)), 0.0
        for size, instances in self.sizes.items():
            level, _ = self._moments(tilt, size)
            transformed = (1 - self.alike) * _power(self._transform(tilt, turns), size)
            if self.alike:
                transformed += self.alike * self._transform(size * tilt, _power(turns, size))
            transform = transform * _power(transformed / level, instances)
            scale += instances * log(level)
        spread = np.fft.irfft(transform, width)  # place 0 is the sum `total`
        outside = self.pairs - total if tilt >= 0 else self.pairs + total
        steps = np.arange(1 + (outside if width > 2 * self.pairs else min(outside, width // 2)))
        chances = spread[steps if tilt >= 0 else -steps] * np.exp(-abs(tilt) * steps)
        factor = exp(min(0.0, scale - tilt * total))
        tail = min(1.0, max(0.0, factor * float(chances.sum())))
        other = min(1.0, max(0.0, 1.0 - tail + factor * float(chances[0])))
        return Tails(tail, other) if tilt >= 0 else Tails(other, tail)

    def share_without_lead(self) -> float:
        """Return the expected share of instances without a lead if no pairs were copies."""
        total = 0.0
        for size, instances in self.sizes.items():
            total += instances * float((self._transform(0.0, _circle(size)) ** size).real.mean())
        return total / sum(self.sizes.values())

    def _pair(self, tilt: float) -> tuple[float, float]:
        """Return the moment generating function of the lead of a pair, and its derivative."""
        better, worse = self.only_candidate * exp(tilt), self.only_baseline * exp(-tilt)
        return worse + self.neither_leads + better, better - worse

    def _moments(self, tilt: float, size: int) -> tuple[float, float]:
        """Return the moment generating function of the lead of an instance, and its derivative."""
        level, slope = self._pair(tilt)
        level, slope = level**size, size * level ** (size - 1) * slope
        if not self.alike:
            return level, slope
        copies, copies_slope = self._pair(size * tilt)
        return (
            (1 - self.alike) * level + self.alike * copies,
            (1 - self.alike) * slope + self.alike * size * copies_slope,
        )

    def _transform(self, tilt: float, turns: Turns) -> Turns:
        better, worse = self.only_candidate * exp(tilt), self.only_baseline * exp(-tilt)
        return self.neither_leads + better * turns + worse * turns.conj()

    def _mean(self, tilt: float) -> float:
        """Return the mean of the tilted sum."""
        total = 0.0
        for size, instances in self.sizes.items():
            level, slope = self._moments(tilt, size)
            total += instances * slope / level
        return total

    def _tilt(self, total: int) -> float:
        """Return a tilt with a mean near `total`."""
        high = min(_STEEPEST, _STEEPEST_INSTANCE / max(self.sizes))
        low = -high
        for _ in range(_TILT_STEPS):
            middle = (low + high) / 2
            if self._mean(middle) < total:
                low = middle
            else:
                high = middle
        return (low + high) / 2

    def _width(self, tilt: float) -> int:
        """Return the number of sums to compute, a power of two."""
        largest = max(self.sizes)
        step = 1e-3 / largest
        variance = (self._mean(tilt + step) - self._mean(tilt - step)) / (2 * step)
        window = int(_DEVIATIONS * sqrt(max(0.0, variance))) + 16 * largest
        return 1 << min(2 * self.pairs + 1, window).bit_length()


def _power(values: Turns, exponent: int) -> Turns:
    """Return a power by repeated squaring, which is faster than numpy's for complex numbers."""
    import numpy as np

    power = np.ones_like(values)
    while exponent:
        if exponent % 2:
            power = power * values
        exponent //= 2
        if exponent:
            values = values * values
    return power


@lru_cache(maxsize=32)
def _turns(width: int) -> Turns:
    """Return the frequencies of a real transform of this length, as points on the circle."""
    import numpy as np

    turns: Turns = np.exp(-2j * np.pi * np.arange(width // 2 + 1) / width)
    return turns


@lru_cache(maxsize=256)
def _circle(size: int) -> Turns:
    """Return as many points on the circle as a sum of `size` leads has values."""
    import numpy as np

    points: Turns = np.exp(-2j * np.pi * np.arange(2 * size + 1) / (2 * size + 1))
    return points
