"""Check in seconds that a server takes connections, without a request."""

import socket
import time
from collections.abc import Callable
from concurrent.futures import Future
from threading import Thread
from typing import ParamSpec, TypeVar
from urllib.parse import urlsplit
from urllib.request import getproxies_environment, proxy_bypass

P = ParamSpec("P")
T = TypeVar("T")

LIMIT_S = 3.0
"""Time for a connection, with the resolution of the name."""

_AGAIN_S = 0.5
"""Wait before the second try: a server may just be starting."""

_PORTS = {"http": 80, "https": 443, "socks5": 1080, "socks5h": 1080}


def explain_unreachable(url: str) -> str | None:
    """Return in a few words why no connection to a server can be made; None if one can.

    If the environment names a proxy for the server, the proxy has to be reached.
    """
    try:
        host, port = address_of(_first_hop(url))
    except ValueError:
        return f"{url} is not an address: write it as http://HOST:PORT/PATH"
    return explain_no_connection(host, port)


def explain_no_connection(host: str, port: int) -> str | None:
    """Return in a few words why no connection to a port can be made, in two tries; or None."""
    if _connect(host, port) is None:
        return None
    time.sleep(_AGAIN_S)
    return _connect(host, port)


def address_of(url: str) -> tuple[str, int]:
    """Return host and port of a server. A proxy may come without `http://`.

    Raises:
        ValueError: it has none.
    """
    parts = urlsplit(url if "://" in url else f"http://{url}")
    if not parts.hostname:
        raise ValueError("no host")
    return parts.hostname, parts.port or _PORTS.get(parts.scheme, 80)


def start_daemon(do: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
    """Run a function in a daemon thread, which does not delay the exit of the program."""
    outcome: Future[T] = Future()

    def run() -> None:
        try:
            outcome.set_result(do(*args, **kwargs))
        except BaseException as error:
            outcome.set_exception(error)

    Thread(target=run, daemon=True).start()
    return outcome


def call_within(limit_s: float, do: Callable[[], T]) -> T:
    """Return the result of a call that may hang. A late call is abandoned in its thread.

    Raises:
        TimeoutError: it takes longer than this.
        Exception: what the call raises.
    """
    return start_daemon(do).result(limit_s)


def _first_hop(url: str) -> str:
    """Return the URL of the proxy for a server, or of the server itself."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("not HTTP")
    proxies = getproxies_environment()
    proxy = proxies.get(parts.scheme) or proxies.get("all")
    is_direct = proxy is None or proxy_bypass(parts.netloc, proxies)
    return url if is_direct or proxy is None else proxy


def _connect(host: str, port: int) -> str | None:
    """Return why no connection to a port can be made; None if one can."""
    try:
        call_within(LIMIT_S, lambda: socket.create_connection((host, port), LIMIT_S).close())
    except socket.gaierror:
        return f"the name {host} cannot be resolved"
    except ConnectionRefusedError:
        return f"{host}:{port} refuses connections"
    except TimeoutError:
        return f"{host}:{port} does not answer within {LIMIT_S:.0f} s"
    except OSError as error:
        return f"{host}:{port} cannot be reached: {error.strerror or error}"
    return None
