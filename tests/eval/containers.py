"""Run a command in a container and return its output."""

from typing import Any


def output_of(image: str, command: str, client: Any) -> bytes:
    """Read the output after the command has ended: following a short command can miss all of it."""
    container = client.containers.run(image, command, detach=True)
    try:
        assert container.wait()["StatusCode"] == 0, container.logs()
        output: bytes = container.logs(stdout=True, stderr=False)
        return output
    finally:
        container.remove(force=True)
