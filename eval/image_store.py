"""Images on the local Docker daemon: pull or build, hold, measure and remove them.

Removal is never forced. An image stays if a container uses it, if another image was made from
it, or if a program holds it.
"""

import fcntl
import hashlib
import os
import re
import threading
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any, Literal

from tenacity import (
    Retrying,
    retry_if_exception_type,
    sleep_using_event,
    stop_after_attempt,
    wait_chain,
    wait_fixed,
)

from eval import images
from eval.base_image import BASE_IMAGE, connect
from eval.errors import ImageError, RepositoryError
from eval.reach import call_within
from eval.types import Instance

How = Literal["built", "pulled"]

RETRY_AFTER_S: tuple[float, ...] = (1.0, 4.0)
"""Delays between attempts of a pull that may have failed because of the network."""


_ASKED = 3
"""Maximum number of requests to a registry before a run."""

_ASK_S = 4.0
"""Time for such an answer."""

_SAYS_NOTHING = re.compile(r"toomanyrequests|page not found|not (?:supported|implemented)", re.I)
"""Errors that prove nothing: a later pull may work, or this daemon has no such request."""


class _Unreachable(ImageError):
    """A pull failed in a way that may be temporary."""


class ImageStore:
    """The images of one daemon, for the programs of one user on this machine.

    `cache` holds build inputs and the locks between programs. A program that dies loses its
    locks. All methods block and may be called from several threads.

    Raises:
        ImageError: no daemon answers. Every method can raise this as well.
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
        """Return the image ids of the names that are available locally, by one daemon request."""
        with _docker_errors():
            local = images.local_images(self._client)
        ids = {name: local.get(images.canonical(name)) for name in names}
        return {name: image_id for name, image_id in ids.items() if image_id is not None}

    @contextmanager
    def hold(self, image: str) -> Iterator[None]:
        """Keep `remove`, in any program, from removing the image while the block runs."""
        with self._lock(image, "held", fcntl.LOCK_SH):
            yield

    @contextmanager
    def fetching(self, image: str, *, wait: bool = True) -> Iterator[bool]:
        """Lock an image so that only one program pulls or builds it at a time.

        Yield True if this program has the lock. With `wait` it waits for the lock, so the value
        is always True.
        """
        mode = fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB
        with self._lock(image, "bringing", mode) as is_ours:
            yield is_ours

    def fetch(self, instance: Instance, repo: Path | None) -> How:
        """Build the image of an instance of a task repo, or pull it if `repo` is None.

        A pull is retried if the network may be at fault, unless retries did not help for the
        previous image. Return how the image was obtained.

        Raises:
            ImageError: the image cannot be pulled or built. The message gives the remedy in
                one line.
        """
        if repo is None:
            self._pull(instance.image)
            return "pulled"
        try:
            with self.fetching(BASE_IMAGE):
                images.ensure_bases([instance], repo, self._client)
            list(images.build([instance], repo, self._cache, client=self._client))
        except RepositoryError as error:
            raise ImageError(str(error)) from error
        return "built"

    def explain_unobtainable(
        self, instances: Collection[Instance], repo: Path | None
    ) -> str | None:
        """Return why the images of instances can neither be pulled nor built; or None.

        Nothing is pulled. The registry is asked about a few images only, for seconds. If it or this
        machine has one of them, or it is too slow, the answer is None.
        """
        if self.find({instance.image for instance in instances}):
            return None
        if repo is None:
            wanted = [instance.image for instance in instances]
        else:
            try:
                needed = images.list_missing_bases(instances, repo, self._client)
            except ImageError as error:
                return str(error)
            wanted = list(chain.from_iterable(needed)) if all(needed) else []
        reasons = dict[str, str]()
        for name in dict.fromkeys(wanted):
            if len(reasons) == _ASKED or (why := self._ask_registry(name)) is None:
                break
            reasons[name] = why
        if not reasons or len(reasons) < min(len(set(wanted)), _ASKED):
            return None
        first, why = next(iter(reasons.items()))
        number = len({instance.image for instance in instances})
        what = "1 image is" if number == 1 else f"{number} images are"
        return f"{what} not on this machine, and {first} cannot be pulled: {why}"

    def size(self, image_ids: Collection[str]) -> int:
        """Return the bytes that removing all of these images would free.

        That is the size of the layers that no other image has, each counted once. Docker
        reports the size of a layer only as a line of an image's history. So a layer is
        identified by the history up to it, which images made from one another share.
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
        """Remove the image of this name if it has this id. Return True if it is gone."""
        from docker.errors import APIError, ImageNotFound

        with (
            self._lock(image, "held", fcntl.LOCK_EX | fcntl.LOCK_NB) as is_free,
            _docker_errors(),
        ):
            if not is_free:
                return False
            if self.find([image]).get(image) != image_id:
                return True
            every = self._client.api.images(all=True)
            if any(child["ParentId"] == image_id for child in every):
                return False
            try:
                self._client.api.remove_image(image)
            except ImageNotFound:
                return True
            except APIError as error:
                if error.status_code == 409:  # a container uses it
                    return False
                raise
        return True

    def stop(self) -> None:
        """End all current and future pulls with an `ImageError`."""
        self._stopped.set()

    def _ask_registry(self, image: str) -> str | None:
        """Return why an image cannot be pulled; None if it can, or if that is not known."""
        from docker.errors import APIError, DockerException
        from requests import RequestException

        try:
            call_within(_ASK_S, lambda: self._client.api.inspect_distribution(image))
        except APIError as error:
            why = " ".join(str(error.explanation or error).split())
            return None if _SAYS_NOTHING.search(why) else why
        except (DockerException, RequestException, TimeoutError):
            return None
        return None

    def _pull(self, image: str) -> None:
        tries = 1 if self._registry_is_away else 1 + len(RETRY_AFTER_S)
        retrying = Retrying(
            retry=retry_if_exception_type(_Unreachable),
            stop=stop_after_attempt(tries),
            wait=wait_chain(*map(wait_fixed, RETRY_AFTER_S)),
            sleep=sleep_using_event(self._stopped),
            reraise=True,
        )
        try:
            retrying(self._pull_once, image)
        except _Unreachable:
            self._registry_is_away = True
            raise
        self._registry_is_away = False

    def _pull_once(self, image: str) -> None:
        from docker.errors import APIError, DockerException
        from requests import RequestException

        if self._stopped.is_set():
            raise ImageError(_not_pulled(image, "stopped"))
        try:
            for event in self._client.api.pull(image, stream=True, decode=True):
                if "error" in event:
                    raise _Unreachable(_not_pulled(image, event["error"]))
                if self._stopped.is_set():
                    raise ImageError(_not_pulled(image, "stopped"))
        except APIError as error:
            # 4xx is the registry's answer about the image. Every other status means that the
            # registry gave no answer.
            kind = ImageError if error.is_client_error() else _Unreachable
            raise kind(_not_pulled(image, error.explanation or error)) from error
        except (DockerException, RequestException) as error:
            raise _Unreachable(_not_pulled(image, error)) from error

    def _layers_of(self, image_id: str) -> dict[str, int]:
        """Return the bytes of each layer of an image, cached because an image never changes."""
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
    def _lock(self, image: str, what: str, mode: int) -> Iterator[bool]:
        """Lock an image. Yield False if another program has the lock."""
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
        raise ImageError(f"a Docker image operation failed: {reason}") from error


def _not_pulled(image: str, reason: object) -> str:
    cause = " ".join(str(reason).split())
    return f"the image {image} cannot be pulled ({cause}); run `docker pull {image}` for details"
