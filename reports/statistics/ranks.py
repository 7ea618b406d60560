"""Agreement of two rankings."""

from collections.abc import Sequence
from itertools import combinations
from math import sqrt


def kendall_tau(first: Sequence[float], second: Sequence[float]) -> float | None:
    """Return tau-b of two ratings of the same things, between -1 and 1.

    It is 1 if both order all things alike, ties included. Return None if one of the ratings makes
    no difference between any two things.

    Kendall, M. G. (1945). The treatment of ties in ranking problems. Biometrika 33, 239-251.
    """
    agreeing, ordered_first, ordered_second = 0, 0, 0
    for (a, x), (b, y) in combinations(zip(first, second, strict=True), 2):
        signs = (a > b) - (a < b), (x > y) - (x < y)
        agreeing += signs[0] * signs[1]
        ordered_first += signs[0] != 0
        ordered_second += signs[1] != 0
    if not ordered_first or not ordered_second:
        return None
    return agreeing / sqrt(ordered_first * ordered_second)
