"""The first contact with the configured Prefect server, which detects a wrong address at once.

Later outages are retried (`flows.server.retry`), and Prefect's own client waits for minutes. A
server that never answered is more often a mistake than a restart.
"""

import base64
import ssl
import time
from typing import Any

from agent.errors import InfrastructureError, one_line
from agent.timings import timings

_CONTACT_S = 3.0
"""Time for a Prefect server to start listening."""

_VERSION_S = 30.0
"""Time for the second answer. It is longer, since the server is known to be Prefect by then."""

_AGAIN_S = 0.25

_MEND = (
    "start it (`prefect server start`), correct PREFECT_API_URL, or unset it to have a private "
    "server for each command"
)


def contact(url: str) -> str:
    """Return the version of the Prefect server at a URL once it answers; empty on Prefect Cloud.

    Raises:
        InfrastructureError: no server answers, it refuses the request, or it is not a Prefect
            server.
    """
    import httpx

    url = url.rstrip("/")
    try:
        with _client(url) as client:
            # Ask before importing Prefect, because the import can take longer than the answer.
            health = _read_first_answer(client, f"{url}/health")
            is_cloud = False
            if url.startswith("https:"):
                from prefect.settings import PREFECT_CLOUD_API_URL

                is_cloud = url.startswith(str(PREFECT_CLOUD_API_URL.value()))
            if not (_is_healthy(health) or (is_cloud and health.is_success)):
                raise _explain_health(client, url, health)
            return "" if is_cloud else _read_version(client, url)
    except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
        raise _failure(url, error) from None


def is_open(url: str) -> bool:
    """Return True if the API at a URL answers requests without a password.

    Raises:
        InfrastructureError: it no longer answers.
    """
    import httpx

    url = url.rstrip("/")
    try:
        with _client(url) as client:
            return bool(client.get(f"{url}/admin/version").is_success)
    except httpx.HTTPError as error:
        raise _failure(url, error) from None


def _client(url: str) -> Any:
    """Return a client that checks certificates as Prefect's own client does."""
    import httpx

    verify: bool | ssl.SSLContext = True
    if url.startswith("https:"):
        from prefect.settings import PREFECT_API_SSL_CERT_FILE, PREFECT_API_TLS_INSECURE_SKIP_VERIFY

        if PREFECT_API_TLS_INSECURE_SKIP_VERIFY.value():
            verify = False
        elif file := PREFECT_API_SSL_CERT_FILE.value():
            verify = ssl.create_default_context(cafile=file)
    return httpx.Client(verify=verify, timeout=timings().server_answer_s, follow_redirects=True)


def _read_first_answer(client: Any, url: str) -> Any:
    """Return the answer of a server that may still be starting."""
    import httpx

    deadline = time.monotonic() + _CONTACT_S
    while True:
        try:
            answer = client.get(url)
        except httpx.ConnectError:
            if time.monotonic() + _AGAIN_S > deadline:
                raise
        else:
            is_starting = answer.status_code in (502, 503, 504)
            if not is_starting or time.monotonic() + _AGAIN_S > deadline:
                return answer
        time.sleep(_AGAIN_S)


def _explain_health(client: Any, url: str, answer: Any) -> InfrastructureError:
    if answer.status_code in (401, 403):
        return _refusal(url, answer)
    if answer.status_code >= 500:
        return InfrastructureError(
            f"the Prefect API {url} answers with status {answer.status_code}: check the server's "
            "log, and run again"
        )
    if _is_healthy(client.get(f"{url}/api/health")):
        return InfrastructureError(
            f"{url} does not end with /api: set PREFECT_API_URL={url}/api, where the Prefect API is"
        )
    hint = "" if url.endswith("/api") else ", which ends with /api"
    return InfrastructureError(
        f"{url} does not answer as a Prefect API (status {answer.status_code} for {url}/health): "
        f"set PREFECT_API_URL to the address of one{hint}"
    )


def _is_healthy(answer: Any) -> bool:
    """Return True if this is an answer of the API; the web pages answer any path with a page."""
    try:
        return answer.is_success and answer.json() is True
    except ValueError:
        return False


def _read_version(client: Any, url: str) -> str:
    """Return the server's version, authenticated as Prefect's own client is."""
    from prefect.settings import PREFECT_API_AUTH_STRING, PREFECT_API_KEY

    headers = {}
    if auth := PREFECT_API_AUTH_STRING.value():
        headers["Authorization"] = f"Basic {base64.b64encode(auth.encode()).decode()}"
    elif key := PREFECT_API_KEY.value():
        headers["Authorization"] = f"Bearer {key}"
    answer = client.get(f"{url}/admin/version", headers=headers, timeout=_VERSION_S)
    if answer.status_code in (401, 403):
        raise _refusal(url, answer)
    try:
        return str(answer.raise_for_status().json())
    except ValueError:
        return ""


def _refusal(url: str, answer: Any) -> InfrastructureError:
    return InfrastructureError(
        f"the Prefect API {url} refuses with status {answer.status_code}: set "
        "PREFECT_API_AUTH_STRING (or PREFECT_API_KEY) to the server's credentials"
    )


def _failure(url: str, error: Exception) -> InfrastructureError:
    import httpx

    if isinstance(error, (httpx.UnsupportedProtocol, httpx.InvalidURL)):
        return InfrastructureError(
            f"PREFECT_API_URL={url} is not an address: write it as http://HOST:4200/api"
        )
    return InfrastructureError(f"the Prefect API {url} does not answer: {one_line(error)}; {_MEND}")
