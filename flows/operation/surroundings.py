"""The variables of the machine that decide how programs reach the network, and its locale.

Libraries read them by themselves, each at another moment. So they are parsed once, when a command
begins, and what no library could use is refused by its name.
"""

import importlib.util
import locale
import os
import re
from pathlib import Path
from urllib.parse import urlsplit

from flows.display.errors import UsageError

PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")
CERTIFICATES = ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")

_LOOPBACK = ("localhost", "127.0.0.1", "::1")
_HOSTS = re.compile(r"[\w.:/*, -]*")


def prepare() -> None:
    """Check the variables, and let this process and its children reach loopback without a proxy.

    Raises:
        UsageError: a variable cannot be used.
    """
    _check_locale()
    for name, value in proxies().items():
        _check_proxy(name, value)
    for name in CERTIFICATES:
        if file := os.environ.get(name):
            _check_certificates(name, file)
    for name in ("NO_PROXY", "no_proxy"):
        if not _HOSTS.fullmatch(os.environ.get(name, "")):
            raise UsageError(f"{name} is no list of hosts: separate names with commas, or unset it")
    if proxies():
        _exempt_loopback()


def proxies() -> dict[str, str]:
    """Return the variables that name a proxy, with their values."""
    names = [each for name in PROXIES for each in (name, name.lower())]
    return {name: os.environ[name] for name in names if os.environ.get(name)}


def address_of(proxy: str) -> tuple[str, int]:
    """Return host and port of a proxy.

    Raises:
        ValueError: it has none.
    """
    parts = urlsplit(proxy if "://" in proxy else f"http://{proxy}")
    if not parts.hostname:
        raise ValueError("no host")
    usual = {"https": 443, "socks5": 1080, "socks5h": 1080}
    return parts.hostname, parts.port or usual.get(parts.scheme, 80)


def _check_proxy(name: str, value: str) -> None:
    try:
        address_of(value)
    except ValueError:
        raise UsageError(
            f"{name} is no address: give it as http://HOST:PORT, or unset it"
        ) from None
    scheme = value.partition("://")[0].lower() if "://" in value else "http"
    if scheme in ("http", "https"):
        return
    if scheme not in ("socks5", "socks5h"):
        raise UsageError(f"{name} begins with {scheme}://: give it as http://HOST:PORT")
    if importlib.util.find_spec("socksio") is None:
        raise UsageError(
            f"{name} begins with {scheme}://, which needs the package socksio: install it, or give "
            "an HTTP proxy as http://HOST:PORT"
        )


def _check_certificates(name: str, value: str) -> None:
    import ssl

    path = Path(value)
    try:
        if not path.is_dir():
            ssl.create_default_context(cafile=value)
    except OSError as error:  # that of a file without certificates is one, too
        reason = error.strerror or str(error)
        raise UsageError(
            f"{name}={value} cannot be used: {reason}; name a file of certificates, or unset it"
        ) from None


def _check_locale() -> None:
    value = os.environ.get("LC_ALL")
    if not value:
        return
    before = locale.setlocale(locale.LC_CTYPE)
    try:
        locale.setlocale(locale.LC_CTYPE, value)
    except locale.Error:
        raise UsageError(
            f"LC_ALL={value} is no locale of this machine: set it to C.UTF-8, or to one that "
            "`locale -a` lists"
        ) from None
    finally:
        locale.setlocale(locale.LC_CTYPE, before)


def _exempt_loopback() -> None:
    """Libraries differ in which of the two spellings they prefer."""
    given = os.environ.get("no_proxy") or os.environ.get("NO_PROXY") or ""
    if given.strip() == "*":
        return
    hosts = [each.strip() for each in given.split(",") if each.strip()]
    every = ",".join([*hosts, *(each for each in _LOOPBACK if each not in hosts)])
    os.environ["NO_PROXY"] = os.environ["no_proxy"] = every
