"""Sends chat requests to addresses and prints the seconds that each took.

Reads JSON from standard input: `targets` (port and key of each address), `calls` per address,
`size` of a request in bytes, and `at_once`. The addresses are asked at the same time with
`at_once`, else in turn.
"""

import http.client
import json
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any


class Target:
    """One address, over one connection."""

    def __init__(self, port: int, key: str) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        self._headers = {"Content-Type": "application/json", "Authorization": f"Bearer {key}"}

    def ask(self, number: int, size: int) -> float:
        """Send one request, and return the seconds until its answer was read."""
        text = f"{number}: " + "word " * (size // 5)
        body = json.dumps({"model": "any", "messages": [{"role": "user", "content": text}]})
        begun = time.perf_counter()
        self._connection.request("POST", "/v1/chat/completions", body, self._headers)
        response = self._connection.getresponse()
        answer = json.loads(response.read())
        if response.status != 200 or not answer["choices"]:
            raise SystemExit(f"status {response.status}: {answer}")
        return time.perf_counter() - begun


def main() -> None:
    """Run as the module says."""
    given: dict[str, Any] = json.load(sys.stdin)
    targets = [Target(each["port"], each["key"]) for each in given["targets"]]
    numbers, size = range(given["calls"]), given["size"]
    if given["at_once"]:
        with ThreadPoolExecutor(len(targets)) as pool:
            each = pool.map(lambda one: [one.ask(number, size) for number in numbers], targets)
            seconds = list(each)
    else:
        taken = [[one.ask(number, size) for one in targets] for number in numbers]
        seconds = [list(one) for one in zip(*taken, strict=True)]
    json.dump(seconds, sys.stdout)


main()
