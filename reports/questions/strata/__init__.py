"""Results by order of the arms, by cut-off date, and without budget stops."""
