"""A real registry of container images on a free loopback port: Debian's `docker-registry`.

with ImageRegistry() as registry:
    name = registry.take(client, "some/image:latest")
    registry.stop()
    registry.start()
"""

import shutil
import subprocess
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import Any

from tests.servers.docker_daemon import skip_or_fail
from tests.servers.postgres import free_port

START_TIMEOUT_S = 30

CONFIGURATION = """\
version: 0.1
log: {{level: error}}
storage: {{filesystem: {{rootdirectory: {root}}}}}
http: {{addr: "127.0.0.1:{port}"}}
"""


def require_registry() -> str:
    """Return the path of `docker-registry`. Skip or fail the test if it is not installed."""
    found = shutil.which("docker-registry")
    if found is None:
        skip_or_fail("no docker-registry: apt-get install docker-registry")
    return found


class ImageRegistry:
    """An empty registry, removed with the context."""

    def __init__(self) -> None:
        self._program = require_registry()
        self._folder = Path(tempfile.mkdtemp(prefix="durabench-registry-"))
        self._process: subprocess.Popen[bytes] | None = None
        # Docker accepts a loopback registry without TLS.
        self.address = f"127.0.0.1:{free_port()}"

    def __enter__(self) -> "ImageRegistry":
        self.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.stop()
        shutil.rmtree(self._folder, ignore_errors=True)

    def start(self) -> None:
        """Start the registry and wait until it answers."""
        configuration = self._folder / "config.yml"
        port = self.address.rpartition(":")[2]
        configuration.write_text(CONFIGURATION.format(root=self._folder / "data", port=port))
        self._process = subprocess.Popen(
            [self._program, "serve", str(configuration)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        deadline = time.monotonic() + START_TIMEOUT_S
        while True:
            try:
                urllib.request.urlopen(f"http://{self.address}/v2/", timeout=5).close()
                return
            except OSError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.05)

    def stop(self) -> None:
        """Stop the registry. Its images are kept for the next start."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def take(self, client: Any, image: str) -> str:
        """Move an image from the daemon to the registry and return the name for pulling it."""
        repository = f"{self.address}/{image.partition(':')[0]}"
        client.images.get(image).tag(repository, "latest")
        for event in client.api.push(repository, tag="latest", stream=True, decode=True):
            assert "error" not in event, event
        client.api.remove_image(f"{repository}:latest")
        client.api.remove_image(image)
        return f"{repository}:latest"

    def forget(self, name: str) -> None:
        """Delete an image from the registry."""
        repository = name.partition("/")[2].rpartition(":")[0]
        shutil.rmtree(self._folder / "data/docker/registry/v2/repositories" / repository)
