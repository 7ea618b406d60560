"""Images on the Docker daemon of this machine: brought, held, measured and removed.

Removal is never forced: the image of a container, one that another was made from, and one
that a program holds stay where they are.
"""

import fcntl
import hashlib
import os
import threading
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

from eval import images
from eval.base_image import BASE_IMAGE, connect
from eval.errors import ImageError
from eval.types import Instance
from eval.upstream import UpstreamError

How = Literal["built", "pulled"]

RETRY_AFTER_S: tuple[float, ...] = (1.0, 4.0)
"""Waits between the tries of a pull that may have failed by the network."""


class _Unreachable(ImageError):
    """A pull that failed in a way that may pass."""


class ImageStore:
    """The images of one daemon, for the programs of one user on this machine.

    `cache` holds what building needs and the locks by which programs keep out of each
    other's way; a program that dies loses its locks. All methods block and may be called
    from several threads.

    Raises:
        ImageError: no daemon answers, here or in any method.
    """

    def __init__(self, cache: Path, client: Any = None) -> None:
        self._client = client or connect()
        self._cache = cache
        self._locks = cache / "image-locks"
        try:
            self._locks.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ImageError(f"cannot make the folder {self._locks}: {error.strerror}") from error
        self._layers: dict[str, dict[str, int]] = {}
        self._stopped = threading.Event()
        self._registry_is_away = False

    def find(self, names: Iterable[str]) -> dict[str, str]:
        """Image id by name, of those that are here; one question to the daemon."""
        with _docker_errors():
            here = images.local_images(self._client)
        return {name: here[found] for name in names if (found := images.canonical(name)) in here}

    @contextmanager
    def held(self, image: str) -> Iterator[None]:
        """As long as the block runs, no program's `remove` takes the image."""
        with self._locked(image, "held", fcntl.LOCK_SH):
            yield

    @contextmanager
    def bringing(self, image: str, *, wait: bool = True) -> Iterator[bool]:
        """Only one program brings an image at a time; whether that is this one, which it is
        always where it may wait for the others."""
        mode = fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB
        with self._locked(image, "bringing", mode) as is_ours:
            yield is_ours

    def bring(self, instance: Instance, repo: Path | None) -> How:
        """Build the image of an instance of a task repo, or pull it where `repo` is None.

        A pull is tried again where the network may be at fault, unless that did not help
        for the image before.

        Raises:
            ImageError: it cannot be had; one line that says what would bring it.
        """
        if repo is None:
            self._pull(instance.image)
            return "pulled"
        try:
            with self.bringing(BASE_IMAGE):
                images.bring_base([instance], repo, self._client)
            add = images.bundler(self._cache)
            list(images.build([instance], repo, add, client=self._client))
        except UpstreamError as error:
            raise ImageError(str(error)) from error
        return "built"

    def size(self, image_ids: Collection[str]) -> int:
        """Bytes that are freed when all of these images are gone.

        Those are the layers that no other image has, each counted once. Docker tells the
        size of a layer only as a line of an image's history, so a layer is known here by the
        history up to it: images made from one another have that in common.
        """
        ours: dict[str, int] = {}
        others: set[str] = set()
        with _docker_errors():
            for image in self._client.api.images():
                layers = self._layers_of(image["Id"])
                if image["Id"] in image_ids:
                    ours |= layers
                else:
                    others |= layers.keys()
        return sum(size for layer, size in ours.items() if layer not in others)

    def remove(self, image: str, image_id: str) -> bool:
        """Remove the image of that name, if it is the one of that id; whether it is gone."""
        from docker.errors import APIError, ImageNotFound

        with (
            self._locked(image, "held", fcntl.LOCK_EX | fcntl.LOCK_NB) as is_free,
            _docker_errors(),
        ):
            if not is_free:
                return False
            if self.find([image]).get(image) != image_id:
                return True
            if any(one["ParentId"] == image_id for one in self._client.api.images(all=True)):
                return False
            try:
                self._client.api.remove_image(image)
            except ImageNotFound:
                return True
            except APIError as error:
                if error.status_code == 409:  # a container has it
                    return False
                raise
        return True

    def stop(self) -> None:
        """End the pulls that are under way, and those to come, with an `ImageError`."""
        self._stopped.set()

    def _pull(self, image: str) -> None:
        waits = () if self._registry_is_away else RETRY_AFTER_S
        for wait in (*waits, None):
            try:
                self._pull_once(image)
            except _Unreachable:
                if wait is None or self._stopped.wait(wait):
                    self._registry_is_away = True
                    raise
            else:
                self._registry_is_away = False
                return

    def _pull_once(self, image: str) -> None:
        from docker.errors import APIError, DockerException
        from requests import RequestException

        try:
            for event in self._client.api.pull(image, stream=True, decode=True):
                if "error" in event:
                    raise _Unreachable(_not_pulled(image, event["error"]))
                if self._stopped.is_set():
                    raise ImageError(_not_pulled(image, "stopped"))
        except APIError as error:
            # What the registry says of the image is answered with 4xx, everything else is
            # that it did not say anything.
            kind = ImageError if error.is_client_error() else _Unreachable
            raise kind(_not_pulled(image, error.explanation or error)) from error
        except (DockerException, RequestException) as error:
            raise _Unreachable(_not_pulled(image, error)) from error

    def _layers_of(self, image_id: str) -> dict[str, int]:
        """Bytes of each layer of an image; asked for once, as an image never changes."""
        from docker.errors import ImageNotFound

        if image_id not in self._layers:
            try:
                history = self._client.api.history(image_id)
            except ImageNotFound:  # removed since it was listed
                return {}
            name, layers = hashlib.sha256(), {}
            for line in reversed(history):
                name.update(repr((line["Created"], line["CreatedBy"], line["Size"])).encode())
                layers[name.hexdigest()] = int(line["Size"])
            self._layers[image_id] = layers
        return self._layers[image_id]

    @contextmanager
    def _locked(self, image: str, what: str, mode: int) -> Iterator[bool]:
        """A lock of that kind for an image; whether it is ours, as it may be another's."""
        name = hashlib.sha256(images.canonical(image).encode()).hexdigest()[:24]
        lock = os.open(self._locks / f"{name}.{what}", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            try:
                fcntl.flock(lock, mode)
            except BlockingIOError:
                yield False
            else:
                yield True
        finally:
            os.close(lock)


@contextmanager
def _docker_errors() -> Iterator[None]:
    from docker.errors import DockerException
    from requests import RequestException

    try:
        yield
    except (DockerException, RequestException) as error:
        reason = " ".join(str(error).split())
        raise ImageError(f"Docker does not do what is needed of images: {reason}") from error


def _not_pulled(image: str, reason: object) -> str:
    said = " ".join(str(reason).split())
    return f"the image {image} cannot be pulled ({said}); see what `docker pull {image}` says"
