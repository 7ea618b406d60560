"""From a repository to a dataset of tasks: `durabench mine`."""

import asyncio
import re
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import date
from pathlib import Path

from agent.errors import InfrastructureError
from agent.project import detect
from agent.testfiles import read_test_files
from eval import git, job_images, repositories
from eval.base_image import connect
from eval.digests import canonical_digest
from eval.errors import DatasetError, ImageError, RepositoryError
from eval.image_store import ImageStore
from eval.job_images import ImageRecipe
from eval.readers import swebench
from eval.repositories import CommitFiles, RepositorySource
from eval.types import Instance
from flows.display.errors import UsageError
from flows.display.terminal import say
from flows.experiments.cells import Place
from flows.jobs.mining import commands
from flows.jobs.mining.candidates import TestedChange, find_candidate, read_changes
from flows.jobs.mining.dataset import MinedDataset, Tried, write_script
from flows.jobs.mining.statements import Statement, read_text, write_statement
from flows.jobs.mining.validation import Dropped, find_tests, refuse_leaks
from flows.jobs.request import access_to
from flows.jobs.request import forge as forge_address
from flows.storage.images import cache_folder

_UNUSUAL = re.compile(r"[^A-Za-z0-9_.-]+")
_UNBUILDABLE = "its image cannot be built"
_FAILED_BUILDS = 3
"""If the first images cannot be built, no other will be."""


@dataclass(frozen=True)
class MiningRequest:
    """The repository to mine, and the options."""

    source: str
    output: Path | None
    """None for a folder of the repository's name."""
    since: date | None
    limit: int
    """Number of tasks to find."""
    verify: str
    image: str | None


@dataclass
class Funnel:
    """The changes that are left after each step, and the time that each took."""

    seen: int = 0
    candidates: int = 0
    tried: int = 0
    built: int = 0
    validated: int = 0
    flaky: int = 0
    dropped: Counter[str] = field(default_factory=Counter)
    warnings: list[str] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)
    folder: Path = Path()

    @contextmanager
    def clock(self, step: str) -> Iterator[None]:
        """Add the time of the block to a step."""
        begin = time.perf_counter()
        try:
            yield
        finally:
            spent = time.perf_counter() - begin
            self.seconds[step] = self.seconds.get(step, 0.0) + spent


def mine(request: MiningRequest, funnel: Funnel) -> None:
    """Write the dataset of a repository, and count into the funnel.

    Raises:
        DatasetError, UsageError: the repository or an option cannot be used.
        ImageError, InfrastructureError: Docker or the forge does not work.
    """
    try:
        _Mine(request, funnel).run()
    except RepositoryError as error:
        raise InfrastructureError(str(error)) from error


class _Mine:
    """One start of the command."""

    def __init__(self, request: MiningRequest, funnel: Funnel) -> None:
        self._request, self._funnel = request, funnel
        if request.verify != commands.AUTO:
            commands.read_log_parser(request.verify)
        self._source = repositories.source(request.source, forge_address())
        _refuse_shallow(self._source)
        self._web = _find_forge(self._source)
        with funnel.clock("history"):
            access = access_to(self._source)
            self._mirror = repositories.fetch_mirror(self._source, cache_folder(), access)
            self._head = repositories.base(self._mirror, None).commit
            self._candidates = self._list_candidates()
        name = (self._web or self._source).name
        self._name = _UNUSUAL.sub("-", name.replace("/", "__")).strip("-.")
        funnel.folder = request.output or Path(f"{self._name}-tasks")
        self._is_written = False

    def run(self) -> None:
        """Try candidates, newest first, until there are enough tasks."""
        store = ImageStore(cache_folder())
        dataset = MinedDataset(self._funnel.folder)
        for candidate in self._candidates:
            if self._funnel.validated >= self._request.limit:
                return
            self._funnel.tried += 1
            clock = time.perf_counter()
            subject = candidate.change.message.strip().partition("\n")[0][:60]
            try:
                tried = self._try(candidate, store, dataset)
            except Dropped as error:
                tried = Tried(candidate.change.commit, "", "", str(error))
            except DatasetError as error:
                tried = Tried(candidate.change.commit, "", "", str(error))
            self._count(tried)
            result = (
                f"dropped: {tried.reason}"
                if tried.reason
                else f"{tried.fail_to_pass} fail-to-pass, {tried.pass_to_pass} pass-to-pass"
            )
            say(
                f"[{self._funnel.tried}/{len(self._candidates)}] {candidate.change.commit[:10]} "
                f"{subject}: {result} ({time.perf_counter() - clock:.1f} s)"
            )

    def _list_candidates(self) -> list[TestedChange]:
        files = CommitFiles(self._mirror, self._head)
        tests = read_test_files(files.paths, files.text)
        changes = list(read_changes(self._mirror, self._request.since))
        self._funnel.seen = len(changes)
        if not changes:
            since = self._request.since
            raise UsageError(
                f"{self._source.address} has no change{f' since {since}' if since else ''} on its "
                "default branch"
            )
        project = detect(files)
        suite = project.tests if project else None
        if commands.choose_tests(suite, self._request.verify, ["a"]) is None:
            found = f"the tests run with {suite.name}, which" if suite else "no test command"
            raise UsageError(
                f"{found} {'prints no result per test that can be read' if suite else 'is found'}: "
                "name one with --verify CMD that does"
            )
        sorted_files = (find_candidate(change, tests) for change in changes)
        candidates = [each for each in sorted_files if each is not None]
        self._funnel.candidates = len(candidates)
        return candidates

    def _try(self, candidate: TestedChange, store: ImageStore, dataset: MinedDataset) -> Tried:
        """Build, validate and write one task, unless an earlier start did.

        Raises:
            Dropped: it can be no task. This is not recorded, as it takes no time to find out.
            DatasetError: no image or file of settings of the commit can be used.
        """
        draft, made_by = self._draft(candidate)
        key = canonical_digest([draft.image, draft.eval_script, draft.log_parser])
        if earlier := dataset.find(candidate.change.commit, key):
            return earlier
        tried = Tried(candidate.change.commit, key, draft.instance_id, "")
        with store.hold(draft.image):
            image_id, is_new = self._build(draft, made_by, store)
            place = Place("docker", image_digest=image_id)
            try:
                with self._funnel.clock("tests"):
                    tests = asyncio.run(find_tests(draft, place))
                    asyncio.run(refuse_leaks(draft, place))
            except Dropped as error:
                tried = replace(tried, reason=str(error))
        if tried.reason:
            dataset.add(tried)
            if is_new:
                store.remove(draft.image, image_id)
            return tried
        statement = self._write_statement(candidate, draft)
        row = {
            **draft.row,
            "problem_statement": statement.text,
            "FAIL_TO_PASS": tests.fail_to_pass,
            "PASS_TO_PASS": tests.pass_to_pass,
        }
        if not self._is_written:
            dataset.write_repository(self._mirror, self._head)
            self._is_written = True
        base = made_by.base or job_images.own_image(draft.base_commit, made_by)
        dataset.write_task(row, job_images.write_dockerfile(base, made_by.install))
        numbers = (len(tests.fail_to_pass), len(tests.pass_to_pass), tests.flaky)
        tried = Tried(*(tried.commit, key, tried.instance_id, "", statement.warning), *numbers)
        dataset.add(tried)
        return tried

    def _draft(self, candidate: TestedChange) -> tuple[Instance, ImageRecipe]:
        """Return the task of a change without its statement and tests, and its image's recipe."""
        change = candidate.change
        patch, test_patch = (
            git.diff(self._mirror, change.base, change.commit, paths)
            for paths in (candidate.code, candidate.tests)
        )
        if not (patch + test_patch).isascii() and re.search("[\ud800-\udfff]", patch + test_patch):
            raise Dropped("its patch is not UTF-8")
        files = CommitFiles(self._mirror, change.base)
        project = detect(files)
        suite = commands.choose_suite(project, candidate.collected) if project else None
        is_other = project is not None and suite != project.tests
        if is_other and suite and self._request.image is None:
            raise Dropped(f"its tests run with {suite.name}: name an image that has it (--image)")
        tests = commands.choose_tests(suite, self._request.verify, candidate.collected)
        if tests is None:
            raise Dropped("no test command is found in its base")
        kind, install = (project.kind, project.install) if project else (None, None)
        made_by = job_images.recipe(files, kind, install, self._request.image)
        row = {
            "instance_id": f"{self._name}-{change.commit[:10]}",
            "repo": (self._web or self._source).name,
            "version": "",
            "base_commit": change.base,
            "commit": change.commit,
            "created_at": change.date,
            "split": "test",
            "problem_statement": "",
            "patch": patch,
            "test_patch": test_patch,
            "image": job_images.name_of(change.base, made_by),
            "eval_script": write_script(candidate, test_patch, tests),
            "log_parser": tests.log_parser,
            "eval_type": "pass_and_fail",
            "FAIL_TO_PASS": [],
            "PASS_TO_PASS": [],
        }
        return swebench.parse(row, where=change.commit[:10]), made_by

    def _build(self, draft: Instance, made_by: ImageRecipe, store: ImageStore) -> tuple[str, bool]:
        """Return the id of the image of a draft, and whether it is new.

        Raises:
            Dropped: it cannot be built. The next start tries again.
            ImageError: so far none could be built.
        """
        name = draft.image
        try:
            with self._funnel.clock("images"), store.fetching(name):
                is_new = not store.find([name])
                image_id = job_images.ensure(connect(), self._mirror, draft.base_commit, made_by)
        except ImageError as error:
            failed = self._funnel.dropped[_UNBUILDABLE] + 1
            if failed == self._funnel.tried == _FAILED_BUILDS:
                raise
            say(" ".join(str(error).split())[-300:])
            raise Dropped(_UNBUILDABLE) from None
        return image_id, is_new

    def _write_statement(self, tested: TestedChange, draft: Instance) -> Statement:
        text = read_text(tested.change.message, self._web)
        arguments = (draft.patch, draft.test_patch, self._mirror, draft.base_commit)
        return write_statement(text, *arguments)

    def _count(self, tried: Tried) -> None:
        funnel = self._funnel
        funnel.built += tried.reason != _UNBUILDABLE
        funnel.flaky += tried.flaky
        if tried.reason:
            funnel.dropped[tried.reason] += 1
            return
        funnel.validated += 1
        if tried.warning:
            funnel.warnings.append(f"{tried.instance_id}: {tried.warning}")


def _refuse_shallow(source: RepositorySource) -> None:
    if not source.address.startswith("/"):
        return
    if git.read(Path(source.address), "rev-parse", "--is-shallow-repository") == "true":
        raise UsageError(
            f"{source.address} is a shallow clone, which has no history to mine: run `git fetch "
            "--unshallow` in it"
        )


def _find_forge(source: RepositorySource) -> RepositorySource | None:
    """Return the repository on its forge, or None if a local one names none."""
    try:
        found = repositories.origin(source, forge_address())
    except DatasetError:
        return None
    return found if found and found.web else None
