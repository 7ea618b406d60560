"""The solver: one conversation that reads, writes a test, edits, runs tests, answers and repairs.

The state of the work tree is not among its facts, so the whole conversation is replayed for each
reply, with its results.
"""

import re
from collections.abc import Generator, Sequence
from dataclasses import dataclass, field

from agent.models.simulated import anchor, implementer
from agent.models.simulated.conversation import Action, Reply, RoleRequest
from agent.models.simulated.reference import DrawnChange, revert_command
from agent.testfiles import BY_CONVENTION

_MOST_REPAIRS = 2
"""Repairs after red tests, before the solver answers nevertheless."""

_LOOKING = """\
import asyncio
found = await asyncio.gather(
{calls})
[len(str(each)) for each in found]
"""

_FAILED = re.compile(r"^(?:FAILED|ERROR) (\S.*?)(?: - .*)?$", re.MULTILINE)
_REGRESSION = re.compile(r"^- (\S.*?) (?:fails and did not before|passed before and is not run)")
_ACCEPTED_SO_FAR = "The checks pass so far."

Play = Generator[Reply, str, None]
"""Yields replies, and receives the results of each."""


def next_reply(request: RoleRequest) -> Reply:
    """Return the next reply of a conversation."""
    play = _Solver(request).play()
    reply = next(play)
    for result in request.results:
        reply = play.send(result)
    return reply


@dataclass(frozen=True)
class _Failures:
    """Findings of a run of tests or of a rejection."""

    anchor: bool
    existing: tuple[str, ...] = ()
    """Ids of existing tests."""
    change: bool = False
    """True if the change is missing, or a reviewer objects to it."""
    reproduction: bool = False
    """True if the new test shows nothing."""

    def __bool__(self) -> bool:
        return self.anchor or bool(self.existing) or self.change or self.reproduction


@dataclass
class _Solver:
    request: RoleRequest
    path: str = ""
    """The place of the new test."""
    test: anchor.AnchorDraft | None = None
    related: list[str] = field(default_factory=list)
    conflicting: list[str] = field(default_factory=list)
    change: DrawnChange | None = None
    changes: int = 0
    repairs: int = 0

    @property
    def draw(self) -> str:
        return f"solver/{self.request.scope}"

    def play(self) -> Play:
        listing = yield [
            Action(
                "Where are the tests?",
                "run_command",
                {"command": self.request.reference.list_tests},
            )
        ]
        tests = [line for line in listing.splitlines() if BY_CONVENTION.collects(line)]
        self.related = self.request.reference.find_related(tests)
        yield from self._look()
        yield from self._write_test(tests)
        if self.request.draws.hits(self.request.spec.cheating, f"{self.draw}/cheating"):
            yield [implementer.cheat([*self.related, *tests], self.request.draws, self.draw)]
        else:
            yield from self._change()
        if self.related and self.request.draws.hits(
            self.request.spec.conflict_claims, f"{self.draw}/conflict"
        ):
            self.conflicting.append(self.related[0])
        yield from self._test_and_repair()
        while True:
            response = yield [self._answer()]
            if _ACCEPTED_SO_FAR not in response:
                yield from self._mend(self._read_rejection(response))
                yield from self._test_and_repair()

    def _look(self) -> Play:
        """Look at the repository as mini-swe-agent does, and at the files to change."""
        files = self.request.reference.files
        rng = self.request.draws.rng(f"{self.draw}/exploration")
        looks = [
            Action(thought, "run_command", {"command": command})
            for thought, command in implementer.exploration(
                files, rng, self.request.spec.exploration
            )
        ]
        reads = implementer.reads(files)
        if "run_ptc" in self.request.tools:
            calls = ""
            for look in [*looks, *reads]:
                arguments = ", ".join(f"{key}={value!r}" for key, value in look.arguments.items())
                calls += f"    {look.tool}({arguments}),\n"
            code = {"code": _LOOKING.format(calls=calls)}
            yield [Action("I look at all of it at once.", "run_ptc", code)]
            return
        for reply in self.request.in_replies([*looks, *reads], self.draw):  # noqa: UP028
            yield reply  # a list could not receive the results

    def _write_test(self, tests: Sequence[str]) -> Play:
        """Write the new test and see it fail. The test of an earlier approach is kept."""
        earlier = self.request.facts.get("earlier_test")
        self.path = anchor.place(self.request.reference, tests)
        draft = anchor.author_test(
            self.request.reference, self.path, self.request.draws, self.request.spec, self.draw
        )
        if earlier and draft:
            self.path, content = earlier["path"], earlier["content"]
            right = anchor.is_right(content, self.path, self.request.reference)
            draft = anchor.AnchorDraft(draft.check, content, right)
        yield from self._adopt(draft)
        if draft is not None:
            yield [Action("It has to fail now.", "run_tests", {"paths": [self.path]})]

    def _adopt(self, draft: anchor.AnchorDraft | None) -> Play:
        self.test = draft
        if draft is not None:
            arguments = {"path": self.path, "content": draft.content}
            yield [Action("I write the test.", "write", arguments)]

    def _change(self) -> Play:
        """Apply a drawn change, after reverting the one before. If both are equal, only look."""
        is_retry = self.changes or self.request.facts.get("plan") is not None
        place = f"{self.draw}/{self.changes}" if is_retry else ""
        self.changes += 1
        before, files = self.change, self.request.reference.files
        self.change = self.request.change(files, place)
        if before == self.change:
            again = Action("I look again.", "run_command", {"command": "git status --short"})
            looks = implementer.reads(files) or [again]
            yield looks[:1]
            return
        if before is not None:
            command = revert_command(before.patch)
            yield [Action("That was wrong: I take it back.", "run_command", {"command": command})]
        patch = {"patch": self.change.patch}
        yield [Action("I know what to change.", "apply_patch", patch)]

    def _test_and_repair(self) -> Play:
        """Run the tests, and repair what is red, but not for ever."""
        paths = [*([self.path] if self.test else []), *self.related]
        for repairs_left in reversed(range(_MOST_REPAIRS + 1)):
            if not paths:
                return
            result = yield [Action("I run the tests.", "run_tests", {"paths": paths})]
            names = _FAILED.findall(result)
            existing = [name for name in names if not anchor.is_own(name, self.path)]
            failures = _Failures(len(existing) < len(names), tuple(existing))
            if not failures or not repairs_left:
                return
            yield from self._mend(failures)

    def _mend(self, failures: _Failures) -> Play:
        """Change the code, or the test, whichever is to blame in the solver's opinion."""
        self.repairs += 1
        check = anchor.choose_check(self.request.reference, self.request.draws)
        if failures.reproduction and not failures.anchor:
            yield from self._adopt(self._draft(check, right=True))
        if not (failures.anchor or failures.existing or failures.change):
            return
        is_wrong = self.change is None or not self.change.right
        insight = self.request.draws.hits(
            self.request.spec.insight, f"{self.draw}/insight/{self.repairs}"
        )
        if is_wrong == insight or self.change is None:
            yield from self._change()
            return
        self.conflicting += failures.existing
        if failures.anchor:
            # The present change passes the new test, be it right or wrong.
            if not self.change.right:
                check = anchor.agreeing_with(self.change.patch, self.request.reference)
            yield from self._adopt(self._draft(check, right=self.change.right))

    def _draft(self, check: anchor.Check | None, *, right: bool) -> anchor.AnchorDraft | None:
        return anchor.AnchorDraft(check, anchor.source(check, self.path), right) if check else None

    def _read_rejection(self, text: str) -> _Failures:
        matches = [_REGRESSION.match(line) for line in text.splitlines()]
        existing = tuple(match[1] for match in matches if match)
        anchor_fails = bool(self.path) and f"- the new test {self.path} fails" in text
        problems = ("nothing was changed", "is not what", "does not apply")
        change = any(problem in text for problem in problems)
        other = not (existing or anchor_fails or change)
        return _Failures(anchor_fails, existing, change, other and "No test was added" not in text)

    def _answer(self) -> Action:
        right = self.change is not None and self.change.right
        because = "" if self.test else "The change leaves no trace in any file's text."
        arguments = {
            "summary": f"Changed {', '.join(file.name for file in self.request.reference.files)}.",
            "test": self.path if self.test else "",
            "no_test_because": because,
            "related_tests": self.related,
            "conflicting_tests": list(dict.fromkeys(self.conflicting)),
            "status": "done",
            "confidence": implementer.confidence(
                self.request.draws, f"{self.draw}/{self.repairs}", right=right
            ),
        }
        return Action("The work is done.", "answer", arguments)
