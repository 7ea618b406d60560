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
            health = _first_answer(client, f"{url}/health")
            is_cloud = _is_cloud(url)
            _check_health(client, url, health, is_cloud=is_cloud)
            return "" if is_cloud else _version(client, url)
    except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
        raise _failure(url, error) from None


def is_open(url: str) -> bool:
    """Return True if the API at a URL, which answers, does so without a password.

    Raises:
        InfrastructureError: it does not answer any more.
    """
    import httpx

    url = url.rstrip("/")
    try:
        with _client(url) as client:
            return bool(client.get(f"{url}/admin/version").is_success)
    except httpx.HTTPError as error:
        raise _failure(url, error) from None


def _client(url: str) -> Any:
    import httpx

    limit_s = timings().server_answer_s
    return httpx.Client(verify=_verify(url), timeout=limit_s, follow_redirects=True)


def _verify(url: str) -> bool | ssl.SSLContext:
    """Return the certificate check that Prefect's own client would use."""
    if not url.startswith("https:"):
        return True
    from prefect.settings import PREFECT_API_SSL_CERT_FILE, PREFECT_API_TLS_INSECURE_SKIP_VERIFY

    if PREFECT_API_TLS_INSECURE_SKIP_VERIFY.value():
        return False
    file = PREFECT_API_SSL_CERT_FILE.value()
    return ssl.create_default_context(cafile=file) if file else True


def _is_cloud(url: str) -> bool:
    if not url.startswith("https:"):
        return False
    from prefect.settings import PREFECT_CLOUD_API_URL

    return url.startswith(str(PREFECT_CLOUD_API_URL.value()))


def _credentials() -> dict[str, str]:
    """Return the header that Prefect's own client would send."""
    from prefect.settings import PREFECT_API_AUTH_STRING, PREFECT_API_KEY

    if auth := PREFECT_API_AUTH_STRING.value():
        token = base64.b64encode(auth.encode()).decode()
        return {"Authorization": f"Basic {token}"}
    if key := PREFECT_API_KEY.value():
        return {"Authorization": f"Bearer {key}"}
    return {}


def _first_answer(client: Any, url: str) -> Any:
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


def _check_health(client: Any, url: str, answer: Any, *, is_cloud: bool) -> None:
    if _is_healthy(answer) or (is_cloud and answer.is_success):
        return
    if answer.status_code in (401, 403):
        raise _refused(url, answer)
    if answer.status_code >= 500:
        raise InfrastructureError(
            f"the Prefect API {url} answers with status {answer.status_code}: look at the log of "
            "the server, and run again"
        )
    if _is_healthy(client.get(f"{url}/api/health")):
        raise InfrastructureError(
            f"{url} does not end with /api: set PREFECT_API_URL={url}/api, where the Prefect API is"
        )
    hint = "" if url.endswith("/api") else ", which ends with /api"
    raise InfrastructureError(
        f"{url} does not answer as a Prefect API (status {answer.status_code} for {url}/health): "
        f"set PREFECT_API_URL to the address of one{hint}"
    )


def _is_healthy(answer: Any) -> bool:
    """Return True if this is an answer of the API; the web pages answer any path with a page."""
    try:
        return answer.is_success and answer.json() is True
    except ValueError:
        return False


def _version(client: Any, url: str) -> str:
    limit_s = _VERSION_S
    answer = client.get(f"{url}/admin/version", headers=_credentials(), timeout=limit_s)
    if answer.status_code in (401, 403):
        raise _refused(url, answer)
    try:
        return str(answer.raise_for_status().json())
    except ValueError:
        return ""


def _refused(url: str, answer: Any) -> InfrastructureError:
    return InfrastructureError(
        f"the Prefect API {url} refuses with status {answer.status_code}: set "
        "PREFECT_API_AUTH_STRING (or PREFECT_API_KEY) to what the server wants"
    )


def _failure(url: str, error: Exception) -> InfrastructureError:
    import httpx

    if isinstance(error, (httpx.UnsupportedProtocol, httpx.InvalidURL)):
        return InfrastructureError(
            f"PREFECT_API_URL={url} is no address: give it as http://HOST:4200/api"
        )
    return InfrastructureError(f"the Prefect API {url} does not answer: {one_line(error)}; {_MEND}")
