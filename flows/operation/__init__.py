"""Operation: the guide for several machines, the checks of `doctor`, and pruning."""
