"""What the relations of a lake say: comparisons, losses, spending."""
