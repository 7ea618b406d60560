"""Programs that run next to the tests, under the interpreter of the repository under test.

They are sent as text, are never imported here, and run on Python 3.5 and later.
"""
