"""Analysis of a lake's relations: comparisons, losses, spending."""
