"""What an attempt knows: facts in normal form, never a transcript."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Literal

from agent.arms.durable.answers import (
    Brief,
    Confidence,
    Contract,
    NextStep,
    Review,
)
from agent.arms.durable.conversation import Limits
from agent.arms.durable.profile import Profile
from agent.tools import TestRun, ToolSettings
from agent.tools.rendering import render_tests
from agent.types import Task

CandidateStatus = Literal["done", "replan", "blocked"]

SHOWN_TEST_FILES = 200


@dataclass(frozen=True)
class Repository:
    """The repository at the base commit, in a few thousand tokens."""

    map: str
    test_files: list[str]
    """All of them; a prompt holds the first `SHOWN_TEST_FILES`."""


@dataclass(frozen=True)
class Excerpt:
    """Real lines of a file, 1-based and inclusive, and why somebody asked for them."""

    path: str
    start: int
    end: int
    why: str
    text: str


@dataclass(frozen=True)
class Anchor:
    """A new test that failed on the base commit, by assertion, when a machine ran it."""

    path: str
    content: str
    output: str
    """What the failing run printed, errors first where it was long."""
    failed: tuple[str, ...]
    """Its tests, by their ids, as far as the test runner names them."""


@dataclass(frozen=True)
class Reproduction:
    """What the task looks like as tests, at the base commit."""

    brief: Brief | None = None
    anchor: Anchor | None = None
    regression_tests: tuple[str, ...] = ()
    """Existing test files."""
    baseline: TestRun | None = None
    """Their run at the base commit, where some may fail already; None without any."""
    problem: str = ""
    """Why there is no anchor."""


@dataclass(frozen=True)
class Verification:
    """Runs of tests by machine, and what in them forbids going on."""

    runs: tuple[TestRun, ...]
    broken: tuple[str, ...]
    """A failing anchor, regressions: each one line."""

    @property
    def passed(self) -> int:
        """Tests that passed, over all runs."""
        return sum(len(run.passed) for run in self.runs)

    @property
    def error(self) -> str:
        """What the runs that failed say, errors first where it is long; empty where none did."""
        return "\n".join(render_tests(run) for run in self.runs if run.exit_code != 0)


@dataclass(frozen=True)
class Candidate:
    """One try at a step, in a workspace of its own."""

    number: int
    status: CandidateStatus
    summary: str
    confidence: Confidence
    tree: str
    """The work tree that it left."""
    diff: str
    """Of that tree against the base commit."""
    edited: tuple[str, ...]
    """Files that differ because of it."""
    written: tuple[str, ...]
    """Files that were named to an editing tool, so that their being there is no accident."""
    tests_run: int
    verification: Verification | None = None
    review: Review | None = None

    @property
    def broken(self) -> tuple[str, ...]:
        """What a machine found to be broken by it, one line each."""
        return self.verification.broken if self.verification else ()

    @property
    def accepted(self) -> bool:
        """Whether it is finished, and nothing speaks against it."""
        return self.status == "done" and self.review is not None and self.review.verdict == "accept"


@dataclass(frozen=True)
class StepResult:
    """One step of the plan, and what came of it."""

    step: NextStep
    candidates: tuple[Candidate, ...]
    chosen: Candidate


@dataclass(frozen=True)
class FinalResult:
    """One final verification: the patch alone on a fresh image, and what was said of it."""

    patch: str
    verification: Verification
    review: Review


@dataclass
class State:
    """Everything that an attempt has found out; phases read it, the arm alone writes it."""

    task: Task
    profile: Profile
    contract: Contract
    repository: Repository
    tools: ToolSettings
    reproduction: Reproduction = field(default_factory=Reproduction)
    backlog: list[str] = field(default_factory=list)
    facts: list[str] = field(default_factory=list)
    context: list[Excerpt] = field(default_factory=list)
    steps: list[StepResult] = field(default_factory=list)
    finals: list[FinalResult] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    """What failed verifications in a row had in common, while they resembled each other."""

    @property
    def last_step(self) -> StepResult | None:
        return self.steps[-1] if self.steps else None

    @property
    def needs_replanning(self) -> bool:
        """Whether the last step did not come to an end that was accepted."""
        return self.last_step is not None and not self.last_step.chosen.accepted

    @property
    def named_tests(self) -> tuple[str, ...]:
        """Test files that were named along the way, each once."""
        return self.known_tests(path for result in self.steps for path in result.step.tests)

    @property
    def written(self) -> frozenset[str]:
        """Files whose being there is no accident."""
        kept = [result.chosen for result in self.steps if not result.chosen.broken]
        return frozenset(path for chosen in kept for path in chosen.written)

    def known_tests(self, paths: Iterable[str]) -> tuple[str, ...]:
        """Those that are test files of the repository, each once."""
        known = set(self.repository.test_files)
        return tuple(path for path in dict.fromkeys(paths) if path in known)

    def limits(self, rounds: int = 6, tool_uses: int | None = None) -> Limits:
        """Limits of one conversation."""
        return Limits(self.profile.context_tokens, rounds, tool_uses)

    def as_facts(self, *keys: str) -> dict[str, Any]:
        """What a role is told, by the names that its prompt uses."""
        facts: dict[str, Any] = {
            "task": self.task.statement,
            "contract": self.contract.model_dump(),
            "acceptance_criteria": self.contract.acceptance_criteria,
            "repository_map": self.repository.map,
            "test_files": self.repository.test_files[:SHOWN_TEST_FILES],
            "brief": self.reproduction.brief.model_dump() if self.reproduction.brief else None,
            "anchor": self._anchor(),
            "regression_tests": list(self.reproduction.regression_tests),
            "backlog": self.backlog,
            "facts": self.facts,
            "context": [vars(excerpt) for excerpt in self.context],
            "completed_steps": [r.step.title for r in self.steps if r.chosen.accepted],
            "last_step": _last(self.last_step),
            "earlier_errors": self.errors,
        }
        return {key: facts[key] for key in keys}

    def _anchor(self) -> dict[str, str] | None:
        anchor = self.reproduction.anchor
        return {"path": anchor.path, "output": anchor.output} if anchor else None


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
