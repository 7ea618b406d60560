"""Names of tests in the spellings that models use."""

import pytest

from agent.checks.running import MAX_FILES_OF_A_FOLDER, find_test_files
from agent.runners import PYTEST, TestRunner, runner_of

FILES = ["bin/test_import.py", "tests/a/tests.py", "tests/a/test_b.py", "tests/test_c.py"]
DJANGO = runner_of("./tests/runtests.py {paths}")
UNITTEST = runner_of("python -m unittest {paths}")
SYMPY = runner_of("bin/test {paths}")


@pytest.mark.parametrize(
    ("named", "meant"),
    [
        ("tests/test_c.py", ["tests/test_c.py"]),
        ("./tests/test_c.py", ["tests/test_c.py"]),
        (" tests//a/../test_c.py ", ["tests/test_c.py"]),
        ("tests/test_c.py::TestC::test_one[a::b]", ["tests/test_c.py"]),
        ("tests/a/", ["tests/a/tests.py", "tests/a/test_b.py"]),
        ("tests/a", ["tests/a/tests.py", "tests/a/test_b.py"]),
        (".", FILES),
        ("tests/test_invented.py", []),
        ("../tests/test_c.py", []),
        ("test", []),
        ("", []),
        ("::", []),
    ],
)
def test_paths_ids_and_folders(named: str, meant: list[str]) -> None:
    """Paths, test ids and folders match only tests of the repository."""
    assert list(find_test_files([named], FILES, PYTEST)) == meant


@pytest.mark.parametrize(
    ("runner", "named", "meant"),
    [
        (DJANGO, "a.tests.FormTests.test_one", ["tests/a/tests.py"]),
        (DJANGO, "a.test_b", ["tests/a/test_b.py"]),
        (DJANGO, "bin/test_import.py", []),
        (UNITTEST, "tests.a.test_b.TestB", ["tests/a/test_b.py"]),
        (SYMPY, "bin", []),
        (SYMPY, "tests/a/test_b.py", ["tests/a/test_b.py"]),
    ],
)
def test_names_of_the_runner(runner: TestRunner, named: str, meant: list[str]) -> None:
    """Labels and modules match only files that the runner accepts."""
    assert list(find_test_files([named], FILES, runner)) == meant


def test_names_in_order_without_duplicates() -> None:
    """Files are listed once each in the given order, and only the first ones of a folder."""
    assert find_test_files(["tests/test_c.py", "./tests/test_c.py", "bin"], FILES, PYTEST) == (
        "tests/test_c.py",
        "bin/test_import.py",
    )
    many = [f"tests/test_{number}.py" for number in range(99)]
    assert len(find_test_files(["tests"], many, PYTEST)) == MAX_FILES_OF_A_FOLDER
