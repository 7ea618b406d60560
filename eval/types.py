"""Rows, predictions and verdicts, typed."""

from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Any, Literal, Protocol

from eval.digests import canonical_digest
from eval.resources import Demand

EvaluationOutcome = Literal["resolved", "unresolved", "patch_failed", "timeout", "infrastructure"]
"""Outcome of a grading, in addition to the score. `infrastructure` is never final."""


ROOT = "/testbed"
"""Path of the repository in the images of SWE-bench, and in eval scripts."""


Phase = Literal["work", "tests"]
"""The work of an arm, and the tests of its grading."""


@dataclass(frozen=True)
class OwnRules:
    """The verdict of a task that swebench does not grade.

    - `swebench`: the log is read by swebench's parser with the name `parser`.
    - `function`: `parser` is Python text with a function `parser(log)` that returns the results.
    - `program`: `parser` is a Python program, called with the files of standard output, of
      standard error, and for its own output.
    - `exit_code`: resolved if the commands end with 0.
    - `reward`: resolved if the tests write a reward from `resolved_reward` to 1.
    """

    kind: Literal["swebench", "function", "program", "exit_code", "reward"]
    parser: str = field(default="", repr=False)
    missing_fails: bool = True
    """A test without a result counts as failed. SWE-bench-Live counts only reported failures."""
    resolved_reward: float = 1.0


@dataclass(frozen=True)
class Instance:
    """One task: a repository in an image, a statement, and the way to grade a patch."""

    instance_id: str
    repo: str
    version: str
    base_commit: str
    problem_statement: str
    patch: str
    test_patch: str
    image: str
    eval_script: str
    log_parser: str
    eval_type: str
    fail_to_pass: tuple[str, ...]
    pass_to_pass: tuple[str, ...]
    row: dict[str, Any] = field(repr=False)
    """The original row, for swebench's own functions if `rules` is None."""
    demand: Demand = field(default_factory=Demand)
    """The resources that the row asks for."""
    root: str = ROOT
    """Path of the repository in the image."""
    rules: OwnRules | None = None
    """The rules of the verdict if swebench does not make it. Then `log_parser` is empty."""
    solution: str = field(default="", repr=False)
    """A Bash script that makes the reference change, of a task without a reference patch."""
    timeout_s: float | None = None
    """The limit of its tests, in seconds, if the task states one."""
    work_limit_s: float | None = None
    """The limit of an attempt, in seconds, if the task states one."""
    offline: frozenset[Phase] = frozenset()
    """The phases without network, even if the experiment gives one."""

    @property
    def has_hidden_tests(self) -> bool:
        """False for the task of a job, whose change people review."""
        return self.rules is not None or bool(self.fail_to_pass or self.pass_to_pass)

    @cached_property
    def digest(self) -> str:
        """SHA-256 over the row as canonical JSON: sorted keys, no spaces."""
        return canonical_digest(self.row, compact=True)


@dataclass(frozen=True)
class UnusableRow:
    """A row of a dataset that cannot be used."""

    where: str
    """Dataset and position, and the instance id if it is known."""
    instance_id: str
    """Empty if it is unknown."""
    reason: str
    """Why it cannot be used, in one line."""

    def __str__(self) -> str:
        return f"{self.where}: {self.reason}"


@dataclass(frozen=True)
class Prediction:
    """One patch for one instance, in the official harness's three fields."""

    instance_id: str
    model_name_or_path: str
    model_patch: str


@dataclass(frozen=True)
class FileChange:
    """A file or symbolic link of a work tree, before and after a patch was applied."""

    path: str
    """Relative to the root. Bytes that are not UTF-8 are written as backslash escapes."""
    before: bytes | None
    """The content, or the target of a link; None if the file did not exist."""
    now: bytes | None
    """The same after the patch; None if it was removed."""
    is_link: bool = False
    """True if it is a link now."""
    is_copy: bool = False
    """True if another file had this content before."""


@dataclass(frozen=True)
class Applied:
    """The changes of an applied patch, as the work tree shows them."""

    files: tuple[FileChange, ...] = ()
    """All changed files, ignored or not."""
    git_files: tuple[str, ...] = ()
    """Changed paths that belong to git, such as hooks and settings."""
    shadows: tuple[str, ...] = ()
    """New files that are imported in place of an installed module, or of the standard library."""
    problem: str = ""
    """The reason why the tree could not be read, or `""`."""


@dataclass(frozen=True)
class Evaluation:
    """The verdict on one patch."""

    instance_id: str
    outcome: EvaluationOutcome
    resolved: bool
    """The official verdict."""
    environment: str
    started_at: datetime
    duration_s: float
    """Wall time of patch and tests, in seconds."""
    timeout_s: float
    harness_version: str
    reason: str = ""
    reward: float | None = None
    """Reason if the outcome is not simply resolved or unresolved."""
    fail_to_pass_success: tuple[str, ...] = ()
    fail_to_pass_failure: tuple[str, ...] = ()
    pass_to_pass_success: tuple[str, ...] = ()
    pass_to_pass_failure: tuple[str, ...] = ()
    log: str = ""
    """The test log."""
    log_is_whole: bool = True
    """False if the log was too long and its middle was not kept."""
    is_limited: bool = False
    """True if the tests reached a limit of their container, as they would again."""
    applied: Applied | None = None
    """The changes of the patch; None if it was not applied."""
    rewritten: tuple[str, ...] = ()
    """Test files of the evaluation that were written or removed while the tests ran."""


class CommandOutput(Protocol):
    """Result of a finished command, with the fields that grading needs."""

    @property
    def exit_code(self) -> int: ...
    @property
    def output(self) -> str: ...
    @property
    def timed_out(self) -> bool: ...
    @property
    def truncated(self) -> bool: ...


class GradingShell(Protocol):
    """The part of a workspace that grading needs. Every workspace satisfies it."""

    @property
    def environment(self) -> str: ...
    @property
    def root(self) -> str: ...
    @property
    def limits_reached(self) -> Mapping[str, str]:
        """The limits that were reached since the opening: name of the setting to description."""
        ...

    async def run(
        self, command: str, *, timeout_s: float, max_output_bytes: int | None = None
    ) -> CommandOutput: ...
    async def write(self, path: str, content: bytes) -> None: ...


OpenShell = Callable[[], AbstractAsyncContextManager[GradingShell]]
"""Opens a fresh workspace, which is removed when the context ends."""
