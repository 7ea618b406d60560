"""Images are pulled, measured by the disk space that removing them frees, and never removed by
force."""

import json
import secrets
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from eval import image_store
from eval.errors import ImageError
from eval.image_store import ImageStore
from eval.types import Instance
from tests.servers.image_registry import ImageRegistry

pytestmark = pytest.mark.docker

MB = 10**6
MakeInstance = Callable[..., Instance]
Build = Callable[..., str]


@pytest.fixture
def store(tmp_path: Path, docker_client: Any) -> ImageStore:
    return ImageStore(tmp_path / "cache", docker_client)


@pytest.fixture
def build(tmp_path: Path, docker_client: Any) -> Iterator[Build]:
    """Yield a function that builds images of files of given sizes, one layer each. They are removed
    at the end."""
    run = f"durabench-test-{secrets.token_hex(4)}"

    def build(name: str, *sizes: int, base: str = "scratch") -> str:
        context = tmp_path / f"context-{name}"
        context.mkdir()
        lines = [f"FROM {base}", 'CMD ["nothing"]']
        for size in sizes:
            # Files of the same size are identical, so that images share the layer.
            (context / str(size)).write_bytes(json.dumps([run, size]).encode().ljust(size))
            lines.append(f"COPY {size} /{name if base != 'scratch' else ''}{size}")
        (context / "Dockerfile").write_text("\n".join(lines))
        docker_client.images.build(path=str(context), tag=f"{run}/{name}:latest", rm=True)
        return f"{run}/{name}:latest"

    yield build
    # `images.list` asks for each image again, and other tests may have removed it by then.
    for image in docker_client.api.images():
        for tag in image["RepoTags"] or ():
            if run in tag:
                docker_client.images.remove(tag, force=True)


@pytest.fixture(scope="module")
def registry() -> Iterator[ImageRegistry]:
    with ImageRegistry() as server:
        yield server


def image_id(store: ImageStore, image: str) -> str:
    return store.find([image])[image]


class TestSize:
    def test_a_shared_layer_is_counted_once(self, store: ImageStore, build: Build) -> None:
        """Two images together free their shared layer; each alone frees only its own layers."""
        a, b = (
            image_id(store, build(*args)) for args in (("a", 2 * MB, MB), ("b", 2 * MB, 3 * MB))
        )
        assert store.size({a}) == MB
        assert store.size({b}) == 3 * MB
        assert store.size({a, b}) == 6 * MB
        assert store.size(set()) == 0


class TestRemove:
    def test_a_held_image_stays(
        self, store: ImageStore, build: Build, tmp_path: Path, docker_client: Any
    ) -> None:
        """An image that another program holds is not removed. Two programs may hold it."""
        other = ImageStore(tmp_path / "cache", docker_client)
        image = build("a", MB)
        of = image_id(store, image)
        with other.hold(image):
            with store.hold(image):
                pass
            assert not store.remove(image, of)
        assert store.find([image]) == {image: of}
        assert store.remove(image, of)

    def test_the_image_of_a_container_stays(
        self, store: ImageStore, build: Build, docker_client: Any
    ) -> None:
        """The image of a container is not removed, even if the container is not running."""
        image = build("a", MB)
        of = image_id(store, image)
        container = docker_client.containers.create(image)
        try:
            assert not store.remove(image, of)
            assert store.find([image]) == {image: of}
        finally:
            container.remove()
        assert store.remove(image, of)

    def test_an_image_that_another_was_made_from_stays(
        self, store: ImageStore, build: Build
    ) -> None:
        """A base image keeps its name while an image built from it exists."""
        base = build("base", MB)
        of = image_id(store, base)
        child = build("child", 2 * MB, base=base)
        assert not store.remove(base, of)
        assert store.find([base]) == {base: of}
        assert store.remove(child, image_id(store, child))
        assert store.remove(base, of)


class TestPull:
    def test_an_image_is_pulled_from_its_registry(
        self,
        store: ImageStore,
        build: Build,
        registry: ImageRegistry,
        docker_client: Any,
        make_instance: MakeInstance,
    ) -> None:
        """A pull yields the image with the expected id, and so does a second pull."""
        built = build("a", MB)
        of = image_id(store, built)
        image = registry.take(docker_client, built)
        assert store.find([image]) == {}
        for _ in (1, 2):
            assert store.fetch(make_instance(image=image), None) == "pulled"
            assert store.find([image]) == {image: of}
            assert store.remove(image, of)

    def test_an_image_that_the_registry_does_not_have_fails_at_once(
        self,
        store: ImageStore,
        build: Build,
        registry: ImageRegistry,
        docker_client: Any,
        make_instance: MakeInstance,
    ) -> None:
        """A missing image fails without retries, in one line with the command to try."""
        image = registry.take(docker_client, build("a", MB))
        registry.forget(image)
        started = time.monotonic()
        with pytest.raises(ImageError) as raised:
            store.fetch(make_instance(image=image), None)
        assert time.monotonic() - started < image_store.RETRY_AFTER_S[0]
        assert "not found" in str(raised.value)
        assert f"`docker pull {image}`" in str(raised.value)
        assert "\n" not in str(raised.value)

    def test_a_briefly_unreachable_registry_is_retried(
        self,
        store: ImageStore,
        build: Build,
        registry: ImageRegistry,
        docker_client: Any,
        make_instance: MakeInstance,
    ) -> None:
        """A pull is retried while the registry is briefly unreachable."""
        image = registry.take(docker_client, build("a", MB))
        registry.stop()
        back = threading.Timer(0.7, registry.start)
        back.start()
        try:
            assert store.fetch(make_instance(image=image), None) == "pulled"
        finally:
            back.join()
        assert store.remove(image, image_id(store, image))


def test_what_can_neither_be_pulled_nor_built_is_known_before(
    store: ImageStore,
    build: Build,
    registry: ImageRegistry,
    docker_client: Any,
    make_instance: MakeInstance,
) -> None:
    """Nothing is pulled. One image that the registry or this machine has is enough."""
    there, gone = (registry.take(docker_client, build(name, MB)) for name in "ab")
    registry.forget(gone)
    lost = make_instance(image=gone)
    assert store.explain_unobtainable([lost, make_instance(image=build("c", MB))], None) is None
    why = store.explain_unobtainable([lost], None)
    assert why is not None
    assert why.startswith(f"1 image is not on this machine, and {gone} cannot be pulled: ")
    assert store.explain_unobtainable([lost, make_instance(image=there)], None) is None
    assert store.find([there, gone]) == {}
    registry.stop()
    try:
        why = store.explain_unobtainable([make_instance(image=there)], None)
    finally:
        registry.start()
    assert why is not None
    assert "connection refused" in why


def test_only_one_program_fetches_an_image_at_a_time(
    store: ImageStore, tmp_path: Path, docker_client: Any
) -> None:
    """A second program that wants to fetch the same image is refused, or waits. Other images are
    not affected."""
    other = ImageStore(tmp_path / "cache", docker_client)
    with store.fetching("some/image") as first, other.fetching("some/image", wait=False) as second:
        assert (first, second) == (True, False)
        with other.fetching("another/image", wait=False) as third:
            assert third
    with other.fetching("docker.io/some/image:latest", wait=False) as fourth:
        assert fourth
