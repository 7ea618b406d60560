"""The time limits of the checks of `durabench doctor`."""

import subprocess
import sys

PROGRAM = """
import asyncio, sys
from flows.operation import checkup

real, imported = checkup._begun, set()

def begun(name, check):
    imported.add("prefect.client.orchestration" in sys.modules)
    return real(name, check)

checkup._begun = begun
asyncio.run(checkup.check(sys.argv[1], fix=False))
print("imported", imported)
"""


def test_the_import_of_prefect_is_not_part_of_a_check(lake_path: str) -> None:
    """Prefect is imported before the first check, because on a busy machine that takes longer than
    a check may."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, lake_path], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-1] == "imported {True}"
