"""Run plain test functions and print pytest's summary, but much faster.

For tests of the durable arm that do not depend on pytest. Exit codes are those of pytest: 0 if all
tests passed, 1 if some failed, 2 if a file cannot be loaded, and 5 if there are no tests.
"""

import sys
import traceback
from collections.abc import Callable
from importlib.util import module_from_spec, spec_from_file_location

SUMMARY = "=" * 20 + " short test summary info " + "=" * 20


def main(paths: list[str]) -> int:
    """Run the tests of the files at `paths` and return the exit code."""
    sys.path.insert(0, ".")
    sys.dont_write_bytecode = True
    results: list[str] = []
    for path in paths:
        try:
            tests = functions_of(path)
        except BaseException:  # pytest survives any exception of a file too
            traceback.print_exc(file=sys.stdout)
            results.append(f"ERROR {path}")
            continue
        results += [run(f"{path}::{name}", test) for name, test in tests.items()]
    print(SUMMARY, *results, sep="\n")
    statuses = {result.split()[0] for result in results}
    return 2 if "ERROR" in statuses else 1 if "FAILED" in statuses else 0 if statuses else 5


def functions_of(path: str) -> dict[str, Callable[[], object]]:
    """Load a file and return its tests by name."""
    spec = spec_from_file_location(path.removesuffix(".py").replace("/", "_"), path)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return {name: each for name, each in vars(module).items() if name.startswith("test")}


def run(test_id: str, test: Callable[[], object]) -> str:
    """Run one test and return its line of the summary."""
    try:
        test()
    except Exception as error:
        # pytest begins the lines that show a failure with E.
        for line in traceback.format_exc().splitlines():
            print(f"E   {line.strip()}")
        return f"FAILED {test_id} - {type(error).__name__}"
    return f"PASSED {test_id}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
