"""The state of an attempt: normalised facts, never a transcript."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Literal

from agent.arms.durable.answers import Brief, Contract, NextStep, Review
from agent.arms.durable.options import CommonProfile, Confidence, FullProfile
from agent.checks import BaseRun, NamedFiles, find_named
from agent.conversation.exchanges import ConversationLimits, Meter
from agent.conversation.person import get_message_facts
from agent.errors import LimitReached, OutOfTime
from agent.journal import InboxMessage, TreeRef
from agent.session.session import Session
from agent.tools import TestRun, ToolSettings
from agent.tools.rendering import render_tests
from agent.tools.testing import Probe
from agent.types import Task

CandidateStatus = Literal["done", "replan", "blocked"]

SHOWN_DIFF = 40_000
"""Maximum length of a diff in a prompt, in characters."""


SHOWN_TEST_FILES = 200


@dataclass(frozen=True)
class Repository:
    """The repository at the base commit."""

    test_files: list[str]
    """All test files. A prompt contains the first `SHOWN_TEST_FILES`."""
    map: str = ""
    """A map that an earlier release recorded, which the prompts of that attempt contain."""


@dataclass(frozen=True)
class Excerpt:
    """Lines of a file, 1-based and inclusive, and the reason why they were requested."""

    path: str
    start: int
    end: int
    why: str
    text: str


@dataclass(frozen=True)
class Anchor:
    """A new test that failed on the base commit at an assertion, as verified by running it."""

    path: str
    content: str
    output: str
    """The output of the failing run, errors first if it was long."""
    failed: tuple[str, ...]
    """Ids of the failing tests, if the test runner reports them."""


@dataclass(frozen=True)
class Reproduction:
    """The task as tests, at the base commit."""

    brief: Brief | None = None
    anchor: Anchor | None = None
    regression_tests: tuple[str, ...] = ()
    """Existing test files."""
    regression_runs: tuple[BaseRun, ...] = ()
    """Their runs at the base commit."""
    baseline: TestRun | None = None
    """Run of the regression tests at the base commit, where some may already fail.

    None without regression tests.
    """
    problem: str = ""
    """The reason why there is not an anchor test."""


@dataclass(frozen=True)
class Runs:
    """Test runs of a change that decide whether it is accepted."""

    anchor: TestRun | None = None
    own: TestRun | None = None
    """The tests that the change adds or changes, of a task for reviewers."""
    before: TestRun | None = None
    """The related existing tests without the change."""
    after: TestRun | None = None
    problem: str = ""
    """The reason why the tests could not run."""
    left_out: tuple[str, ...] = ()
    """One line for each related test file that was not run, with the reason."""


@dataclass(frozen=True)
class Verification:
    """Test runs, and the failures that block progress."""

    runs: tuple[TestRun, ...]
    broken: tuple[str, ...]
    """A failing anchor test or regressions, one line each."""
    compared: Runs = Runs()
    """The runs that decide."""

    @property
    def passed(self) -> int:
        """Number of tests that passed, over all runs."""
        return sum(len(run.passed) for run in self.runs)

    @property
    def error(self) -> str:
        """Output of the failed runs, errors first if it is long; empty if none failed."""
        return "\n".join(render_tests(run) for run in self.runs if run.exit_code != 0)


@dataclass(frozen=True)
class Candidate:
    """One try at a step, in a separate workspace."""

    number: int
    status: CandidateStatus
    summary: str
    confidence: Confidence
    tree: TreeRef
    """The resulting work tree."""
    diff: str
    """Diff of that tree against the base commit."""
    edited: tuple[str, ...]
    """Files that the candidate changed."""
    written: tuple[str, ...]
    """Files that were passed to an editing tool, so that they exist on purpose."""
    tests_run: int
    verification: Verification | None = None
    review: Review | None = None

    @property
    def broken(self) -> tuple[str, ...]:
        """Failures that tests found, one line each."""
        return self.verification.broken if self.verification else ()

    @property
    def accepted(self) -> bool:
        """True if the candidate is done and its review accepts it."""
        return self.status == "done" and self.review is not None and self.review.verdict == "accept"


@dataclass(frozen=True)
class StepResult:
    """One step of the plan, and its result."""

    step: NextStep
    candidates: tuple[Candidate, ...]
    chosen: Candidate


@dataclass(frozen=True)
class FinalResult:
    """One final verification: the patch alone on a fresh image, and its review."""

    patch: str
    verification: Verification
    review: Review


@dataclass
class Evidence:
    """Findings of an attempt that both presets share, with the results of its tests."""

    task: Task
    profile: CommonProfile
    repository: Repository
    tools: ToolSettings
    meter: Meter
    probe: Probe
    """Result of a probe of the test runner. If it does not work, no test opens or closes a gate."""
    reproduction: Reproduction = field(default_factory=Reproduction)
    withdrawn: list[Anchor] = field(default_factory=list)
    """New tests that were ruled to ask for something that the task does not."""
    baselines: dict[str, BaseRun] = field(default_factory=dict)
    """Runs of existing test files on the base commit, by their paths."""
    not_run: list[str] = field(default_factory=list)
    """One line for each test that a model named and that was not run, with the reason."""
    excepted: list[str] = field(default_factory=list)
    """Ids of existing tests that were ruled to contradict the task."""
    heard: list[InboxMessage] = field(default_factory=list)
    """The messages of people that the main line has read."""
    ended: OutOfTime | LimitReached | None = None
    """The reason why the work was cut off."""

    @property
    def said(self) -> dict[str, Any]:
        """The messages of people as a fact of a role. Empty if there are none."""
        return get_message_facts(self.heard)

    @property
    def new_test(self) -> dict[str, str] | None:
        """The anchor test as a fact of a role."""
        anchor = self.reproduction.anchor
        return {"path": anchor.path, "content": anchor.content} if anchor else None

    async def find_named_tests(self, names: Iterable[str], session: Session) -> NamedFiles:
        """Return the files of the repository that a model named. Other names go to `not_run`."""
        files = self.repository.test_files
        named = await find_named(list(names), files, self.tools.runner, session)
        self.note_not_run(named.refused)
        return named

    def note_not_run(self, lines: Iterable[str]) -> None:
        """Remember tests that are not run, each once."""
        self.not_run += [line for line in dict.fromkeys(lines) if line not in self.not_run]

    def limits(self, rounds: int = 6, tool_uses: int | None = None) -> ConversationLimits:
        """Return the limits of one conversation."""
        return ConversationLimits(self.profile.context_tokens, rounds, tool_uses, self.meter)


@dataclass
class State(Evidence):
    """All findings of an attempt of the full preset. Phases read, and only the flow writes."""

    profile: FullProfile
    contract: Contract = field(kw_only=True)
    backlog: list[str] = field(default_factory=list)
    facts: list[str] = field(default_factory=list)
    context: list[Excerpt] = field(default_factory=list)
    steps: list[StepResult] = field(default_factory=list)
    finals: list[FinalResult] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    """Errors of consecutive failed verifications that resemble each other, the last two."""
    rescued: str = ""
    """The best rejected patch, for want of an accepted one."""

    @property
    def patch(self) -> str:
        """The change to submit: the last verified change, or the best rejected one."""
        return (self.finals[-1].patch if self.finals else "") or self.rescued

    @property
    def answer(self) -> str:
        """The facts for people who get no change; '' after a new test or any step."""
        has_change = bool(self.steps or self.reproduction.anchor)
        is_answer = self.task.for_reviewers and not has_change
        return "\n".join(self.facts) if is_answer else ""

    @property
    def last_step(self) -> StepResult | None:
        return self.steps[-1] if self.steps else None

    @property
    def needs_replanning(self) -> bool:
        """True if the last step did not end with an accepted candidate."""
        return self.last_step is not None and not self.last_step.chosen.accepted

    @property
    def tests_of_steps(self) -> list[str]:
        """Tests that the steps named, without duplicates."""
        return list(dict.fromkeys(path for result in self.steps for path in result.step.tests))

    @property
    def written(self) -> frozenset[str]:
        """Files that steps passed to an editing tool, so that they exist on purpose."""
        chosen = [result.chosen for result in self.steps if not result.chosen.broken]
        return frozenset(path for candidate in chosen for path in candidate.written)

    def as_facts(self, *keys: str) -> dict[str, Any]:
        """Return the input of a role, by the names that its prompt uses."""
        anchor = self.reproduction.anchor
        facts: dict[str, Any] = {
            "task": self.task.statement,
            "contract": self.contract.model_dump(),
            "acceptance_criteria": self.contract.acceptance_criteria,
            "test_files": self.repository.test_files[:SHOWN_TEST_FILES],
            "brief": self.reproduction.brief.model_dump() if self.reproduction.brief else None,
            "anchor": {"path": anchor.path, "output": anchor.output} if anchor else None,
            "regression_tests": list(self.reproduction.regression_tests),
            "backlog": self.backlog,
            "facts": self.facts,
            "context": [vars(excerpt) for excerpt in self.context],
            "completed_steps": [r.step.title for r in self.steps if r.chosen.accepted],
            "last_step": _last(self.last_step),
            "earlier_errors": self.errors,
        }
        facts["repository_map"] = self.repository.map
        names = list(keys)
        if self.repository.map:  # at its place when the attempt was recorded
            position = max(names.index(key) for key in ("task", "contract") if key in names)
            names.insert(position + 1, "repository_map")
        not_run = {"tests_not_run": self.not_run} if self.not_run else {}
        return {**{name: facts[name] for name in names}, **not_run, **self.said}


def _last(result: StepResult | None) -> dict[str, Any] | None:
    if result is None:
        return None
    chosen = result.chosen
    rejected = chosen.review is not None and chosen.review.verdict == "revise"
    return {
        "title": result.step.title,
        "targets": result.step.targets,
        "status": "revise" if rejected else chosen.status,
        "summary": chosen.summary,
        "review_issues": chosen.review.issues if chosen.review else [],
        "broken": list(chosen.broken),
        "kept": not chosen.broken,
    }
