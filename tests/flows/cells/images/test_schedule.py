"""Images are fetched ahead of their cells and evicted before they exceed the limit, on a real
daemon."""

import asyncio
import secrets
import shutil
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

from eval import instances
from eval.image_store import ImageStore
from eval.instances import load
from eval.types import Instance
from flows.benchmark import benchmark
from flows.cells.images.schedule import schedule_images
from flows.experiments.cells import Place
from flows.experiments.declaration import Images
from flows.experiments.stop import Stop
from flows.storage import report_files
from flows.storage.images import GB, ImageCache
from flows.storage.lake import Lake, Row
from tests.flows.conftest import trial
from tests.waiting import until

pytestmark = [pytest.mark.docker]

MB = 10**6
FILLER = 3 * MB
TASKS = [f"durabench__{name}" for name in ("quillet-1", "quillet-2", "slotwise-1", "slotwise-2")]


@dataclass(frozen=True)
class Repo:
    """A task repo of four bundled tasks. Each image has 3 MB of its own."""

    path: Path
    prefix: str
    client: Any

    @property
    def instances(self) -> list[Instance]:
        return load(str(self.path))

    def image(self, task: str) -> str:
        return f"{self.prefix}/{task}:latest"

    def here(self) -> set[str]:
        """Return the tasks whose images are on the daemon."""
        tags = [tag for image in self.client.api.images() for tag in image["RepoTags"] or ()]
        mine = [tag for tag in tags if tag.startswith(self.prefix)]
        return {tag.partition("/")[2].rpartition(":")[0] for tag in mine}

    def experiment(self, **changes: Any) -> Any:
        content = {
            "dataset": str(self.path),
            "environment": "docker",
            "select": {},
            "arms": [{"name": "gold", "agent": "gold"}],
            "primary": None,
            "concurrency": 2,
            **changes,
        }
        return trial(**content)


@pytest.fixture
def repo(tmp_path: Path, docker_client: Any) -> Iterator[Repo]:
    prefix = f"durabench-test-{secrets.token_hex(4)}"
    source, target = Path(instances.__file__).parent / "tasks", tmp_path / "repo"
    for task in TASKS:
        folder = target / "tasks" / task
        shutil.copytree(source / "tasks" / task, folder)
        row = yaml.safe_load((folder / "task.yaml").read_text())
        (folder / "task.yaml").write_text(
            yaml.safe_dump({**row, "image": f"{prefix}/{task}:latest"})
        )
        (folder / "filler").write_bytes(secrets.token_bytes(FILLER))
        with (folder / "Dockerfile").open("a") as dockerfile:
            dockerfile.write("COPY filler /filler\n")
    shutil.copy(source / "sweb.yaml", target)
    made = Repo(target, prefix, docker_client)
    yield made
    for image in docker_client.api.images():
        for tag in image["RepoTags"] or ():
            if prefix in tag:
                docker_client.images.remove(tag, force=True)


@pytest.fixture
def store(tmp_path: Path, docker_client: Any, monkeypatch: pytest.MonkeyPatch) -> ImageStore:
    monkeypatch.setenv("DURABENCH_CACHE", str(tmp_path / "cache"))
    return ImageStore(tmp_path / "cache", docker_client)


@dataclass
class Observed:
    """The sets of images that were present together, observed from outside the run."""

    repo: Repo
    together: list[set[str]] = field(default_factory=list)
    arrivals: list[str] = field(default_factory=list)
    """Tasks in the order in which their images arrived."""

    def __enter__(self) -> "Observed":
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._ended.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._ended.wait(0.02):
            here = self.repo.here()
            before = self.together[-1] if self.together else set()
            if here != before:
                self.together.append(here)
                self.arrivals += sorted(here - before)


def image_rows(lake_path: str) -> dict[str, Row]:
    """Return the rows of `images` by task."""
    rows = Lake.existing(lake_path).all_shared("images")
    return {row["image"].partition("/")[2].rpartition(":")[0]: row for row in rows}


class TestImageCache:
    def kept(self, lake_path: str, store: ImageStore, limit: int) -> ImageCache:
        return ImageCache(Lake.open(lake_path), store, limit)

    @pytest.mark.full
    def test_an_image_that_the_lake_did_not_fetch_is_never_removed(
        self, repo: Repo, store: ImageStore, lake_path: str
    ) -> None:
        """An image that the lake did not fetch has no row, does not count and is never removed."""
        first, second = repo.instances[:2]
        self.kept(str(Path(lake_path) / "another"), store, 0).fetch(first, str(repo.path))
        kept = self.kept(lake_path, store, 0)
        assert kept.fetch(first, str(repo.path)).how is None
        kept.fetch(second, str(repo.path))
        assert [row["image"] for row in kept.make_room().removed] == [second.image]
        assert repo.here() == {first.instance_id}

    @pytest.mark.full
    def test_an_image_that_a_killed_program_fetched_is_known(
        self, repo: Repo, store: ImageStore, lake_path: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """If a program dies during a fetch, the next one knows which image it fetched and forgets
        the other."""

        class Killed(BaseException):
            pass

        def dies(*arguments: Any) -> None:
            raise Killed

        kept = self.kept(lake_path, store, 0)
        with monkeypatch.context() as patched:
            patched.setattr(store, "size", dies)  # called after an image has been fetched
            with pytest.raises(Killed):
                kept.fetch(repo.instances[0], str(repo.path))
            patched.setattr(store, "fetch", dies)
            with pytest.raises(Killed):
                kept.fetch(repo.instances[1], str(repo.path))
        assert {task: row["image_digest"] for task, row in image_rows(lake_path).items()} == {
            TASKS[0]: None,
            TASKS[1]: None,
        }
        assert [row["image"] for row in kept.make_room().removed] == [repo.image(TASKS[0])]
        assert all(row["removed_at"] for row in image_rows(lake_path).values())


@dataclass(frozen=True)
class Visit:
    """The minimum that a schedule can place."""

    instance: Instance
    place: Place = field(default_factory=lambda: Place("docker"))


class TestSchedule:
    def schedule(
        self,
        repo: Repo,
        lake_path: str,
        done: Callable[..., Any] = lambda *_: None,
        stop: Stop | None = None,
        **images: Any,
    ) -> tuple[list[Visit], Any]:
        visits = [Visit(instance) for instance in repo.instances]
        lake = Lake.open(lake_path)
        return visits, schedule_images(visits, str(repo.path), Images(**images), lake, done, stop)

    @pytest.mark.full
    @pytest.mark.usefixtures("store")
    async def test_images_are_fetched_ahead_of_their_cells(
        self, repo: Repo, lake_path: str
    ) -> None:
        """The configured number of images is fetched ahead, and the next one as soon as a cell
        enters."""
        visits, schedule = self.schedule(repo, lake_path, ahead=1)
        async with schedule as placed:
            await until(lambda: repo.here() == {TASKS[0]})
            async with placed.open(visits[0]) as place:
                assert place.image_digest == repo.client.images.get(visits[0].instance.image).id
                await until(lambda: repo.here() == set(TASKS[:2]))
                await asyncio.sleep(1)
                assert repo.here() == set(TASKS[:2])
        assert repo.here() == set(TASKS[:2])

    @pytest.mark.usefixtures("store")
    async def test_no_image_is_fetched_for_a_finished_cell(
        self, repo: Repo, lake_path: str
    ) -> None:
        """Finished cells are placed on their recorded image without a fetch. The next unfinished
        cell gets its image."""

        def done(visit: Visit, here: str | None) -> Place | None:
            assert here is None
            return (
                Place("docker", "sha256:old") if visit.instance.instance_id in TASKS[:3] else None
            )

        visits, schedule = self.schedule(repo, lake_path, done, ahead=0)
        async with schedule as placed:
            for visit in visits[:3]:
                async with placed.open(visit) as place:
                    assert place.image_digest == "sha256:old"
            async with placed.open(visits[3]):
                assert repo.here() == {TASKS[3]}

    @pytest.mark.full
    @pytest.mark.usefixtures("store")
    async def test_images_of_skipped_items_are_not_fetched(
        self, repo: Repo, lake_path: str
    ) -> None:
        """A skipped image is fetched if it is needed after all."""
        visits, schedule = self.schedule(repo, lake_path, ahead=1)
        async with schedule as placed:
            await until(lambda: repo.here() == {TASKS[0]})
            for visit in visits[:3]:
                placed.skip(visit)
            async with placed.open(visits[3]):
                assert repo.here() == {TASKS[0], TASKS[3]}
            async with placed.open(visits[1]) as place:
                assert place.image_digest
                assert repo.here() == {TASKS[0], TASKS[1], TASKS[3]}
            async with placed.open(visits[0]) as place:
                assert place.image_digest


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.usefixtures("prefect", "store")
class TestRuns:
    @pytest.mark.full
    async def test_a_small_disk_is_enough(self, repo: Repo, lake_path: str) -> None:
        """Four images with room for two: never more than two are present, each is fetched once in
        the order of the cells, and every cell gets a verdict."""
        arms = [{"name": name, "agent": name} for name in ("gold", "null")]
        limit = (2 * FILLER + MB) / GB
        declared = repo.experiment(arms=arms, repeats=2, images={"keep_gb": limit})
        with Observed(repo) as observed:
            await benchmark(declared, lake_path)
        assert max(map(len, observed.together)) == 2
        assert observed.arrivals == TASKS
        built = report_files.read(Lake.existing(lake_path), "trial")
        assert {arm.name: arm.resolved for arm in built.arms} == {"gold": 8, "null": 0}
        rows = image_rows(lake_path)
        assert {task for task, row in rows.items() if row["removed_at"] is None} == repo.here()
        assert len(repo.here()) == 2
