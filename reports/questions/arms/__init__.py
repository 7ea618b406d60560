"""The arms, and the states of the planned cells."""
