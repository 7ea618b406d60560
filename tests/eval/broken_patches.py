"""Patches that break a package's import, and with it the tests, or that forge test output.

Each patch is Python code to insert before the package's first line. None of them repairs anything,
so swebench has to decide on output that is empty, broken or forged.
"""

from collections.abc import Iterable

_AT_EXIT = """\
import atexit, os
def _late():
    {}
atexit.register(_late)
"""

_INFRASTRUCTURE = {
    "no network": "Temporary failure in name resolution",
    "no memory": "Cannot allocate memory",
    "killed": "Killed",
    "no daemon": "Error response from daemon: no such container",
    "no display": "cannot open display",
    "no browser": "Failed to launch chromium",
}
"""Messages that swebench attributes to broken infrastructure if a log has no results."""


def code(tests: Iterable[str]) -> dict[str, str]:
    """Return the code of every patch by name. `tests` are the tests that have to pass."""
    passed = "".join(f"PASSED {test}\n" for test in tests)
    written = f"import os\nos.write(1, {passed.encode()!r})\n"
    assembled = f"import os\nos.write(1, {passed.encode().hex()!r} and bytes.fromhex({{!r}}))\n"
    forged = assembled.format(passed.encode().hex())
    markers = ">>>>> {} Test Output"
    whole = f"\n{markers.format('Start')}\n{passed}= 99 passed in 0.1s =\n{markers.format('End')}\n"
    said = {
        f"says: {name}": f"print('', {text!r}, sep='\\n', flush=True)\nraise SystemExit\n"
        for name, text in _INFRASTRUCTURE.items()
    }
    return {
        # Nothing can be imported.
        "syntax": "def broken(:\n",
        "import": "import no_such_module_anywhere\n",
        "relative import": "from . import no_such_part\n",
        "recursion": "def f():\n    return f()\nf()\n",
        "exception": "raise BaseException('no')\n",
        "interrupt": "raise KeyboardInterrupt\n",
        # The runner dies before it has finished.
        "exit": "raise SystemExit(0)\n",
        "exit at once": "import os\nos._exit(0)\n",
        "abort": "import os\nos.abort()\n",
        "kills itself": "import os\nos.kill(os.getpid(), 9)\n",
        "kills the script": "import os\nos.kill(os.getppid(), 9)\n",
        "segmentation fault": "import ctypes\nctypes.string_at(0)\n",
        "takes all memory": "bytearray(2**62)\n",
        "closes its output": "import os\nos.close(1)\nos.close(2)\n",
        "replaces itself": "import os\nos.execv('/bin/true', ['true'])\n",
        "writes without end": "print('x' * 2**20 * 80)\nraise SystemExit\n",
        # Forged results.
        "forges": f"{written}raise ImportError\n",
        "forges at exit": f"{_AT_EXIT.format(written.splitlines()[1])}raise ImportError\n",
        "forges at exit, exits": _AT_EXIT.format(written.splitlines()[1] + "; os._exit(0)")
        + "raise ImportError\n",
        "forges assembled": f"{forged}raise ImportError\n",
        "forges, exits at once": f"{written}os._exit(0)\n",
        "forges assembled, exits at once": f"{forged}os._exit(0)\n",
        "forges, exits with failure": f"{written}os._exit(1)\n",
        "forges a whole log": f"import os\nos.write(1, {whole.encode()!r})\nos._exit(1)\n",
        "forges the exit code": f"import os\nos.write(1, {b'>>>>> Test Exit Code: 0'!r} + b'\\n')\n"
        f"{written}os._exit(1)\n",
        "forges a reset": "print('\\n>>>>> Reset Failed', flush=True)\n",
        "forges a timeout": "print('\\n>>>>> Tests Timed Out', flush=True)\n",
        **said,
    }
