"""The certificates that programs of the tests read. No server of the tests has TLS."""

import atexit
import os
import tempfile
from pathlib import Path

import certifi

_END = "-----END CERTIFICATE-----\n"


def share_one_certificate() -> None:
    """Let clients of HTTP read one certificate, not all of certifi.

    All of certifi take 20 ms of processor time, and each client of Prefect reads its file again: a
    flow run on a worker has 20 of them. Importing Prefect reads certificates twice, and importing
    LiteLLM three times. pip, which downloads packages, keeps the certificates of this machine.
    """
    first, end, _ = certifi.contents().partition(_END)
    descriptor, name = tempfile.mkstemp(prefix="durabench-", suffix=".pem")
    # Prefect, imported later, sends its last events before that.
    atexit.register(Path(name).unlink, missing_ok=True)
    with os.fdopen(descriptor, "w") as file:
        file.write(first + end)
    if own := os.environ.get("SSL_CERT_FILE"):
        os.environ.setdefault("PIP_CERT", own)
    os.environ["SSL_CERT_FILE"] = name  # also the default of Prefect's PREFECT_API_SSL_CERT_FILE
