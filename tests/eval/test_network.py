"""Lines of a log that show a failed use of the network, and the addresses of servers."""

from eval.log_formats import find_network_failure
from eval.reach import address_of

PIP = (
    "WARNING: Retrying (Retry(total=4)) after connection broken by 'NewConnectionError: Failed to "
    "establish a new connection: [Errno -3] Temporary failure in name resolution'\n"
    "ERROR: No matching distribution (from versions: none)\n"
)
GIT = "fatal: unable to access 'https://x/': Could not resolve host: x\n"


def test_lines_of_pip_count_only_if_they_may() -> None:
    """Most logs without network have lines of pip. The first other line is the one shown."""
    assert find_network_failure(PIP).startswith(
        "WARNING: Retrying"
    ) or "establish" in find_network_failure(PIP)
    assert find_network_failure(PIP, of_pip=False) == ""
    assert find_network_failure(PIP + GIT, of_pip=False) == GIT.strip()
    assert find_network_failure("ok\n" * 3) == ""


def test_an_address_without_a_port_has_the_one_of_its_scheme() -> None:
    """A proxy may have no scheme."""
    urls = ("https://a/v1", "http://a", "a", "a:8", "https://a:8", "socks5://a", "socks5h://a")
    assert [address_of(url) for url in urls] == [
        ("a", port) for port in (443, 80, 80, 8, 8, 1080, 1080)
    ]
