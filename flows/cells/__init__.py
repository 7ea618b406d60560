"""One cell: solve it, grade the patch, and the loop that runs the cells of a process."""
