"""Lines of a log that show a failed use of the network."""

from eval.log_formats import find_network_failure

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
