"""The environment variables for the network and the locale.

Libraries read them at different times. So a command parses them first, and names an unusable one.
"""

import importlib.util
import locale
import os
import re
from pathlib import Path

from eval.reach import address_of
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
    files: dict[str, str] = {}
    for name in CERTIFICATES:
        if file := os.environ.get(name):
            files.setdefault(file, name)  # usually one file, which takes 50 ms to read
    for file, name in files.items():
        _check_certificates(name, file)
    for name in ("NO_PROXY", "no_proxy"):
        if not _HOSTS.fullmatch(os.environ.get(name, "")):
            raise UsageError(
                f"{name} is not a list of hosts: separate names with commas, or unset it"
            )
    if proxies():  # libraries differ in which of the two spellings they prefer
        listed = os.environ.get("no_proxy") or os.environ.get("NO_PROXY") or ""
        if listed.strip() != "*":
            hosts = [host.strip() for host in listed.split(",") if host.strip()]
            hosts += [host for host in _LOOPBACK if host not in hosts]
            os.environ["NO_PROXY"] = os.environ["no_proxy"] = ",".join(hosts)


def proxies() -> dict[str, str]:
    """Return the variables that name a proxy, with their values."""
    names = [spelling for name in PROXIES for spelling in (name, name.lower())]
    return {name: os.environ[name] for name in names if os.environ.get(name)}


def _check_proxy(name: str, value: str) -> None:
    try:
        address_of(value)
    except ValueError:
        raise UsageError(
            f"{name} is not an address: write it as http://HOST:PORT, or unset it"
        ) from None
    scheme = value.partition("://")[0].lower() if "://" in value else "http"
    if scheme in ("http", "https"):
        return
    if scheme not in ("socks5", "socks5h"):
        raise UsageError(f"{name} starts with {scheme}://: write it as http://HOST:PORT")
    if importlib.util.find_spec("socksio") is None:
        raise UsageError(
            f"{name} starts with {scheme}://, which needs the package socksio: install it, or use "
            "an HTTP proxy, http://HOST:PORT"
        )


def _check_certificates(name: str, value: str) -> None:
    import ssl

    path = Path(value)
    try:
        if not path.is_dir():
            ssl.create_default_context(cafile=value)
    except OSError as error:  # also for a file without certificates
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
            f"LC_ALL={value} is not a locale of this machine: set it to C.UTF-8, or choose from "
            "`locale -a`"
        ) from None
    finally:
        locale.setlocale(locale.LC_CTYPE, before)
