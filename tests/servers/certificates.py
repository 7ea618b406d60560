"""The certificates that Prefect's clients read. No Prefect server of the tests has TLS."""

import atexit
import os
import tempfile
from pathlib import Path

import certifi

_END = "-----END CERTIFICATE-----\n"


def share_one_certificate() -> None:
    """Let Prefect's clients read one certificate, not all of certifi.

    Each client reads its file again. All of certifi take 20 ms of processor time, and a flow run on
    a worker has 20 clients.
    """
    first, end, _ = certifi.contents().partition(_END)
    descriptor, name = tempfile.mkstemp(prefix="durabench-", suffix=".pem")
    # Prefect, imported later, sends its last events before that.
    atexit.register(Path(name).unlink, missing_ok=True)
    with os.fdopen(descriptor, "w") as file:
        file.write(first + end)
    os.environ.setdefault("PREFECT_API_SSL_CERT_FILE", name)
