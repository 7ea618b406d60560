"""Tasks from the merged changes of a repository, as a dataset for `run`.

candidates  changes of the history with code and tests
commands    a test command whose log swebench can read
statements  the statement of a change, without what only its patch says
validation  the tests that a change repairs, and leaks of its image
dataset     the folder of tasks, and the record of tried changes
mine        from the repository to the dataset
"""
