"""An S3-compatible object store on a free loopback port: moto's server in this process.

with ObjectStore() as store:
    lake = Lake.open(store.create_lake())
    store.refuse()
"""

import os
import urllib.request
import uuid
from pathlib import Path

import pytest
from moto.server import ThreadedMotoServer
from s3fs import S3FileSystem

from tests.servers.postgres import free_port


class ObjectStore:
    """An empty store, to which the AWS environment variables point until the context ends."""

    def __init__(self) -> None:
        port = free_port()
        self._server = ThreadedMotoServer(ip_address="127.0.0.1", port=port, verbose=False)
        self._patch = pytest.MonkeyPatch()
        self.environment = {
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
            "AWS_ACCESS_KEY_ID": "tester",
            "AWS_SECRET_ACCESS_KEY": "secret",
            "AWS_DEFAULT_REGION": "us-east-1",
        }

    def __enter__(self) -> "ObjectStore":
        for name in [name for name in os.environ if name.startswith("AWS_")]:
            self._patch.delenv(name)
        for name, value in self.environment.items():
            self._patch.setenv(name, value)
        forget_connections()
        self._server.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.accept()
        self._server.stop()
        self._patch.undo()
        forget_connections()

    def create_lake(self, prefix: str = "lake") -> str:
        """Create an empty bucket and return the URL of a prefix in it."""
        bucket = f"bucket-{uuid.uuid4().hex[:8]}"
        self._files().mkdir(bucket)
        return f"s3://{bucket}/{prefix}"

    def names(self, url: str) -> list[str]:
        """Return the sorted names of the objects below a URL, relative to it."""
        root = f"{url.removeprefix('s3://')}/"
        return sorted(name.removeprefix(root) for name in self._files().find(url))

    def versions(self, url: str) -> dict[str, str]:
        """Return the digest and the time of the last write of each object below a URL."""
        found = self._files().find(url, detail=True)
        return {name: f"{each['ETag']} {each['LastModified']}" for name, each in found.items()}

    def upload(self, folder: Path, url: str) -> None:
        """Copy all files of a folder to a URL."""
        root = url.removeprefix("s3://")
        for path in folder.rglob("*"):
            if path.is_file():
                self._files().put_file(str(path), f"{root}/{path.relative_to(folder)}")

    def refuse(self) -> None:
        """Reject all credentials from now on."""
        self._tell("reset-auth", b"0")

    def accept(self) -> None:
        """Accept any credentials again."""
        self._tell("reset-auth", b"inf")

    def _files(self) -> S3FileSystem:
        return S3FileSystem(use_listings_cache=False)

    def _tell(self, what: str, content: bytes) -> None:
        url = f"{self.environment['AWS_ENDPOINT_URL']}/moto-api/{what}"
        header = {"Content-Type": "application/octet-stream"}
        request = urllib.request.Request(url, data=content, headers=header)
        urllib.request.urlopen(request, timeout=10).close()


def forget_connections() -> None:
    """Make the next path read the store from the environment again."""
    S3FileSystem.clear_instance_cache()
