"""The fork server of `multiprocessing`, which the processes that it forked use, too.

That is what CPython intends, but each of them starts another one (python/cpython#86354), which
imports everything again.
"""

import multiprocessing.forkserver
import os
import sys
from typing import Any

_library: Any = multiprocessing.forkserver._forkserver


def running() -> str:
    """Start the server unless it runs. Return the address of its socket."""
    _library.ensure_running()
    return str(_library._forkserver_address)


def use(address: str) -> None:
    """Use the server that forked this process, as long as it lives."""
    if sys.version_info >= (3, 14):
        return  # it wants a key, which Python does not pass on
    server, start = os.getppid(), _library.ensure_running

    def ensure_running() -> None:
        if os.getppid() != server:
            start()

    _library._forkserver_address, _library.ensure_running = address, ensure_running
