"""The solver: one conversation that reads, writes a test, edits, runs tests, answers and repairs.

The state of the work tree is not among its facts, so the whole conversation is played again for
each reply, with the results that it holds.
"""

import re
from collections.abc import Generator, Sequence
from dataclasses import dataclass, field

from agent.models.simulated import anchor, implementer
from agent.models.simulated.conversation import Action, Reply, RoleRequest
from agent.models.simulated.reference import Drawn, undoing_command
from agent.testfiles import BY_CONVENTION

_LIST_TESTS = "git ls-files -- '*test*.py' | head -n 200"
_MOST_REPAIRS = 2
"""Repairs after red tests of its own, before the solver answers nevertheless."""

_LOOKING = """\
import asyncio
found = await asyncio.gather(
{calls})
[len(str(each)) for each in found]
"""

_FAILED = re.compile(r"^(?:FAILED|ERROR) (\S.*?)(?: - .*)?$", re.MULTILINE)
_REGRESSION = re.compile(r"^- (\S.*?) (?:fails and did not before|passed before and is not run)")
_ASKED_AGAIN = "The checks pass so far."

Play = Generator[Reply, str, None]
"""Yields replies, and receives the results of each."""


def next_reply(asked: RoleRequest) -> Reply:
    """Return the next reply of a conversation."""
    play = _Solver(asked).play()
    reply = next(play)
    for result in asked.results:
        reply = play.send(result)
    return reply


@dataclass(frozen=True)
class _Failures:
    """Findings of a run of tests or of a rejection."""

    anchor: bool
    existing: tuple[str, ...] = ()
    """Ids of existing tests."""
    change: bool = False
    """True if there is no change, or one that a reviewer objects to."""
    reproduction: bool = False
    """True if the new test shows nothing."""

    def __bool__(self) -> bool:
        return self.anchor or bool(self.existing) or self.change or self.reproduction


@dataclass
class _Solver:
    asked: RoleRequest
    path: str = ""
    """The place of the new test."""
    test: anchor.AnchorDraft | None = None
    related: list[str] = field(default_factory=list)
    conflicting: list[str] = field(default_factory=list)
    change: Drawn | None = None
    changes: int = 0
    repairs: int = 0

    @property
    def draw(self) -> str:
        return f"solver/{self.asked.scope}"

    def play(self) -> Play:
        listing = yield [Action("Where are the tests?", "run_command", {"command": _LIST_TESTS})]
        tests = [line for line in listing.splitlines() if BY_CONVENTION.collects(line)]
        self.related = self.asked.reference.find_related(tests)
        yield from self._look()
        yield from self._write_test(tests)
        if self.asked.draws.hits(self.asked.spec.cheating, f"{self.draw}/cheating"):
            yield [implementer.cheat([*self.related, *tests], self.asked.draws, self.draw)]
        else:
            yield from self._change()
        if self.related and self.asked.draws.hits(
            self.asked.spec.conflict_claims, f"{self.draw}/conflict"
        ):
            self.conflicting.append(self.related[0])
        yield from self._test_and_repair()
        while True:
            told = yield [self._answer()]
            if _ASKED_AGAIN not in told:
                yield from self._mend(self._get_rejections(told))
                yield from self._test_and_repair()

    def _look(self) -> Play:
        """Look at the repository as mini-swe-agent does, and at the files to change."""
        files = self.asked.reference.files
        rng = self.asked.draws.rng(f"{self.draw}/exploration")
        looks = [
            Action(thought, "run_command", {"command": command})
            for thought, command in implementer.exploration(files, rng, self.asked.spec.exploration)
        ]
        reads = implementer.reads(files)
        if "run_ptc" in self.asked.tools:
            yield [_program([*looks, *reads])]
            return
        for reply in self.asked.in_replies([*looks, *reads], self.draw):  # noqa: UP028
            yield reply  # a list could not receive the results

    def _write_test(self, tests: Sequence[str]) -> Play:
        """Write the new test and see it fail. The test of an earlier approach is kept."""
        earlier = self.asked.facts.get("earlier_test")
        self.path = anchor.beside(self.asked.reference, tests)
        made = anchor.author_test(
            self.asked.reference, self.path, self.asked.draws, self.asked.spec, self.draw
        )
        if earlier and made:
            self.path, content = earlier["path"], earlier["content"]
            right = anchor.is_right(content, self.path, self.asked.reference)
            made = anchor.AnchorDraft(made.check, content, right)
        yield from self._adopt(made)
        if made is not None:
            yield [Action("It has to fail now.", "run_tests", {"paths": [self.path]})]

    def _adopt(self, made: anchor.AnchorDraft | None) -> Play:
        self.test = made
        if made is not None:
            arguments = {"path": self.path, "content": made.content}
            yield [Action("I write the test.", "write", arguments)]

    def _change(self) -> Play:
        """Apply a drawn change, after undoing the one before. If both are equal, only look."""
        place = f"{self.draw}/{self.changes}" if self.changes or self._is_retry else ""
        self.changes += 1
        before, files = self.change, self.asked.reference.files
        self.change = self.asked.change(files, place)
        if before == self.change:
            again = Action("I look again.", "run_command", {"command": "git status --short"})
            looks = implementer.reads(files) or [again]
            yield looks[:1]
            return
        if before is not None:
            command = undoing_command(before.patch)
            yield [Action("That was wrong: I take it back.", "run_command", {"command": command})]
        patch = {"patch": self.change.patch}
        yield [Action("I know what to change.", "apply_patch", patch)]

    @property
    def _is_retry(self) -> bool:
        return self.asked.facts.get("plan") is not None

    def _test_and_repair(self) -> Play:
        """Run the tests, and repair what is red, but not for ever."""
        paths = [*([self.path] if self.test else []), *self.related]
        for left in reversed(range(_MOST_REPAIRS + 1)):
            if not paths:
                return
            result = yield [Action("I run the tests.", "run_tests", {"paths": paths})]
            failures = self._get_failures(result)
            if not failures or not left:
                return
            yield from self._mend(failures)

    def _mend(self, failures: _Failures) -> Play:
        """Change the code, or the test, whichever is to blame in the solver's opinion."""
        self.repairs += 1
        if failures.reproduction and not failures.anchor:
            yield from self._adopt(self._asserting(self._check, right=True))
        if not (failures.anchor or failures.existing or failures.change):
            return
        is_wrong = self.change is None or not self.change.right
        insight = self.asked.draws.hits(
            self.asked.spec.insight, f"{self.draw}/insight/{self.repairs}"
        )
        if is_wrong == insight or self.change is None:
            yield from self._change()
            return
        self.conflicting += failures.existing
        if failures.anchor:
            yield from self._adopt(self._fitting())

    def _fitting(self) -> anchor.AnchorDraft | None:
        """Return a test that the present change passes, be it right or wrong."""
        assert self.change is not None
        if not self.change.right:
            check = anchor.agreeing_with(self.change.patch, self.asked.reference)
            return self._asserting(check, right=False)
        return self._asserting(self._check, right=True)

    @property
    def _check(self) -> anchor.Check | None:
        return anchor.chosen(self.asked.reference, self.asked.draws)

    def _asserting(self, check: anchor.Check | None, *, right: bool) -> anchor.AnchorDraft | None:
        return anchor.AnchorDraft(check, anchor.source(check, self.path), right) if check else None

    def _get_failures(self, result: str) -> _Failures:
        names = _FAILED.findall(result)
        existing = [name for name in names if name.partition("::")[0] != self.path]
        return _Failures(len(existing) < len(names), tuple(existing))

    def _get_rejections(self, told: str) -> _Failures:
        lines = told.splitlines()
        existing = tuple(found[1] for line in lines if (found := _REGRESSION.match(line)))
        anchor_fails = bool(self.path) and f"- the new test {self.path} fails" in told
        change = any("nothing was changed" in line or "is not what" in line for line in lines)
        change = change or "does not apply" in told
        other = not (existing or anchor_fails or change)
        no_tests = "No test was added" in told
        return _Failures(anchor_fails, existing, change, other and not no_tests)

    def _answer(self) -> Action:
        right = self.change is not None and self.change.right
        because = "" if self.test else "The change leaves no trace in any file's text."
        arguments = {
            "summary": f"Changed {', '.join(file.name for file in self.asked.reference.files)}.",
            "test": self.path if self.test else "",
            "no_test_because": because,
            "related_tests": self.related,
            "conflicting_tests": list(dict.fromkeys(self.conflicting)),
            "status": "done",
            "confidence": implementer.confidence(
                self.asked.draws, f"{self.draw}/{self.repairs}", right=right
            ),
        }
        return Action("The work is done.", "answer", arguments)


def _program(looks: Sequence[Action]) -> Action:
    """Return a program that looks at everything at the same time."""
    calls = "".join(f"    {_call(each)},\n" for each in looks)
    return Action("I look at all of it at once.", "run_ptc", {"code": _LOOKING.format(calls=calls)})


def _call(action: Action) -> str:
    named = ", ".join(f"{name}={value!r}" for name, value in action.arguments.items())
    return f"{action.tool}({named})"
