"""Text for people: the terminal, values, and steps of an attempt."""
