"""Prefect's engine for one flow run, in a process that finishes its calls when its worker ends.

A Prefect worker that ends kills the process that it has started. Here, that process only waits for
the engine below it. When it dies, the kernel sends SIGTERM to the engine, which then stops as
`flows.server.stopping` says. The work pool names this module in its `COMMAND`.
"""

import ctypes
import os
import runpy
import signal
import sys
from contextlib import suppress
from types import FrameType

# Prefect would look for `python` on PATH. This is the interpreter of the worker.
COMMAND = (
    """sh -c 'exec "$(tr "\\0" "\\n" <"/proc/$PPID/cmdline" | head -n 1)" -m flows.server.engine'"""
)

_PR_SET_PDEATHSIG = 1  # from <linux/prctl.h>


def main() -> None:
    """Run the engine below this process, pass SIGTERM on to it, and end with its exit code."""
    parent = os.getpid()
    engine = os.fork()
    if engine == 0:
        os.setsid()  # Ctrl-C goes to the worker
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() == parent:
            runpy.run_module("prefect.engine", run_name="__main__", alter_sys=True)
        return

    def pass_on(number: int, frame: FrameType | None) -> None:
        with suppress(ProcessLookupError):
            os.kill(engine, number)

    signal.signal(signal.SIGTERM, pass_on)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    code = os.waitstatus_to_exitcode(os.waitpid(engine, 0)[1])
    sys.exit(code if code >= 0 else 128 - code)


if __name__ == "__main__":
    main()
