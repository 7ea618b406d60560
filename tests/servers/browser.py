"""A headless Chromium, driven by its debugging protocol.

with Browser(folder) as browser:
    browser.open(url, width=390)
    browser.value("document.title")
"""

import json
import shutil
import subprocess
from itertools import count
from pathlib import Path
from typing import Any, Self

import httpx
import pytest
from websockets.sync.client import ClientConnection, connect

from tests.waiting import wait_until

PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
_HEIGHT = 900
_OPTIONS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--remote-debugging-port=0",
)


class Browser:
    """One page of a browser with a new profile."""

    def __init__(self, folder: Path) -> None:
        program = next(filter(None, map(shutil.which, PROGRAMS)), None)
        if program is None:
            pytest.skip(f"there is no browser: one of {', '.join(PROGRAMS)} is needed")
        self._folder = folder
        command = [program, *_OPTIONS, f"--user-data-dir={folder}", "about:blank"]
        self._process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        self._numbers = count(1)
        self._socket: ClientConnection | None = None

    def __enter__(self) -> Self:
        file = self._folder / "DevToolsActivePort"
        wait_until(lambda: file.is_file() and file.read_text().strip(), seconds=120)
        port = file.read_text().splitlines()[0]
        pages = httpx.get(f"http://127.0.0.1:{port}/json/list", timeout=60).json()
        [page] = [each for each in pages if each["type"] == "page"]
        self._socket = connect(page["webSocketDebuggerUrl"], max_size=None, open_timeout=60)
        self._ask("Page.enable")
        return self

    def __exit__(self, *_: object) -> None:
        if self._socket is not None:
            self._socket.close()
        self._process.terminate()
        self._process.wait(timeout=30)

    def open(self, url: str, width: int = 1280) -> None:
        """Open an address in a window of a width, and wait until it is loaded."""
        size = {"width": width, "height": _HEIGHT, "deviceScaleFactor": 1}
        self._ask("Emulation.setDeviceMetricsOverride", {**size, "mobile": width < 600})
        self._ask("Page.navigate", {"url": url})
        loaded = f"document.readyState == 'complete' && location.href.startsWith({json.dumps(url)})"
        self.wait_for(loaded)

    def value(self, expression: str) -> Any:
        """Return the value of an expression of the page's script, or of the promise that it is."""
        asked = {"expression": expression, "awaitPromise": True, "returnByValue": True}
        answer = self._ask("Runtime.evaluate", asked)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def wait_for(self, expression: str, seconds: float = 60) -> Any:
        """Return the first true value of an expression."""
        return wait_until(lambda: self.value(expression), seconds=seconds, every_s=0.1)

    def _ask(self, method: str, parameters: dict[str, Any] | None = None) -> dict[str, Any]:
        assert self._socket is not None
        number = next(self._numbers)
        self._socket.send(json.dumps({"id": number, "method": method, "params": parameters or {}}))
        while (answer := json.loads(self._socket.recv(timeout=60))).get("id") != number:
            pass
        assert "error" not in answer, answer
        result: dict[str, Any] = answer["result"]
        return result
