"""Requests to the REST API of a forge. Each refusal is an error that says what to change."""

import time
from collections.abc import Mapping
from typing import Any
from urllib.parse import urljoin

import httpx

from agent.errors import InfrastructureError
from eval.errors import DatasetError
from flows.display.errors import UsageError

_TIMEOUT_S = 30
_TRIES = 4
_LONGEST_WAIT_S = 60.0
_PAGES = 10
_REDIRECTS = 5
_TOKEN = "DURABENCH_FORGE_TOKEN"  # noqa: S105 - the name of a variable


class Rest:
    """The API of a forge at an address. Headers may contain a token."""

    def __init__(self, api: str, headers: Mapping[str, str]) -> None:
        self._api, self._headers = api, headers
        self._origin = urljoin(api, "/")

    def get(self, path: str, what: str, **query: Any) -> Any:
        """Return an object. `what` names it in errors."""
        return self._read(self.ask("GET", path, query=query), what)

    def find(self, path: str, what: str, **query: Any) -> Any | None:
        """Return an object, or None if there is none."""
        answer = self.ask("GET", path, query=query)
        return None if answer.status_code == 404 else self._read(answer, what)

    def list_all(self, path: str, what: str, **query: Any) -> list[Any]:
        """Return the objects of all pages, none where the forge has no such list."""
        answer = self.ask("GET", path, query=query)
        if answer.status_code == 404:
            return []
        found: list[Any] = list(self._read(answer, what) or [])
        for _ in range(_PAGES):
            address = answer.links.get("next", {}).get("url", "")
            if not address.startswith(self._api):  # the token is for this forge only
                break
            answer = self.ask("GET", address.removeprefix(self._api))
            found += self._read(answer, what) or []
        return found

    def read_text(self, path: str) -> str:
        """Return a log, or '' if the forge does not give it."""
        answer = self.ask("GET", path)
        return answer.text if answer.is_success else ""

    def send(self, method: str, path: str, what: str, content: Mapping[str, Any]) -> Any:
        """Create or change an object. Return it."""
        return self._read(self.ask(method, path, content), what)

    def _read(self, answer: httpx.Response, what: str) -> Any:
        try:
            return self.check(answer, what).json()
        except ValueError:
            raise InfrastructureError(f"{self._api} answers no JSON to {what}") from None

    def ask(
        self,
        method: str,
        path: str,
        content: Mapping[str, Any] | None = None,
        query: Mapping[str, Any] | None = None,
    ) -> httpx.Response:
        """Return the answer to a request, whatever it is.

        A forge that is busy, or that asks to wait for at most a minute, is asked again.
        """
        for left in reversed(range(_TRIES)):
            answer = self._send(method, f"{self._api}{path}", content, query)
            wait_s = _read_wait(answer, 2.0 ** (_TRIES - 1 - left) / 2)
            if wait_s is None or not left or wait_s > _LONGEST_WAIT_S:
                break
            time.sleep(wait_s)
        return answer

    def _send(self, method: str, address: str, content: Any, query: Any) -> httpx.Response:
        for _ in range(_REDIRECTS):
            # Logs may be in a storage elsewhere, which gets no token.
            headers = self._headers if address.startswith(self._origin) else {}
            try:
                answer = httpx.request(
                    method, address, json=content, params=query, headers=headers, timeout=_TIMEOUT_S
                )
            except httpx.HTTPError as error:
                raise InfrastructureError(
                    f"{self._api} does not answer: {type(error).__name__}; run again to continue"
                ) from None
            if not answer.has_redirect_location:
                break
            address, query = urljoin(address, answer.headers["Location"]), None
        return answer

    def check(self, answer: httpx.Response, what: str) -> httpx.Response:
        """Return an answer that is not a refusal.

        Raises:
            DatasetError, UsageError: the forge refuses it.
            InfrastructureError: the forge is broken or busy.
        """
        if answer.is_success:
            return answer
        status, message = answer.status_code, read_message(answer)
        if status == 404:
            raise DatasetError(
                f"the forge has no {what.removeprefix('the ')}, or the token of {_TOKEN} cannot "
                f"see it ({message})"
            )
        if status in (401, 403) and _read_wait(answer, 0) is None:
            raise UsageError(
                f"the forge does not allow {what}: set {_TOKEN} to a token that can ({message})"
            )
        if status in (400, 409, 413, 422, 423):
            raise UsageError(f"the forge refuses {what}: {message}")
        raise InfrastructureError(
            f"the forge answers {status} to {what}: {message}; run again to continue"
        )


def read_message(answer: httpx.Response) -> str:
    """Return the words of a forge about a refusal, in one line."""
    try:
        data = answer.json()
    except ValueError:
        data = answer.text
    names = ("message", "error", "errors", "error_description")
    parts = [data.get(name) for name in names] if isinstance(data, dict) else [data]
    return " ".join("; ".join(filter(None, map(_say, parts))).split())[:300]


def _say(value: Any) -> str:
    if isinstance(value, dict):
        if text := value.get("message") or value.get("code"):
            return str(text)
        return "; ".join(f"{name} {_say(each)}" for name, each in value.items())
    return "; ".join(map(_say, value)) if isinstance(value, list) else str(value or "")


def _read_wait(answer: httpx.Response, usual_s: float) -> float | None:
    """Return the seconds after which a forge may answer otherwise; None if it will not."""
    status, headers = answer.status_code, answer.headers
    if status in (403, 429):
        if headers.get("Retry-After", "").isdigit():
            return float(headers["Retry-After"])
        if headers.get("X-RateLimit-Remaining") == "0":
            return max(1.0, float(headers.get("X-RateLimit-Reset", 0)) - time.time())
        return usual_s if status == 429 else None
    return usual_s if status in (500, 502, 503, 504) else None
