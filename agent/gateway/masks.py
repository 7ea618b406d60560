"""Parts of a tool's result that differ when the same command runs again.

This is an allow-list. Each pattern names one kind of value in the words of the programs that print
it, so that a number, a name or a verdict of another kind is always compared.
"""

import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

_SECONDS = r"\d+(?:\.\d+)?(?:e-\d+)?"
_TIME = rf"{_SECONDS} ?(?:[mµun]?s|secs?|seconds?|milliseconds?|ms|min|minutes?|m)\b"
_LABEL = r"(?:wall[ _-]?(?:clock[ _-]?)?time|elapsed(?:[ _-]time)?|execution[ _-]time|duration_ms)"
_VERDICT = (
    r"(?:passed|failed|errors?|skipped|deselected|xfailed|xpassed|warnings?|rerun|subtests passed"
    r"|no tests ran|no tests collected|tests? collected|collected)"
)
_TEMPORARY = "(?:/tmp|/var/tmp|/dev/shm)"
_RANDOM = (
    r"(?:\d{4,}|(?=[a-f]*\d)(?=\d*[a-f])[0-9a-f]{8,}"
    r"|(?=[A-Za-z]*\d)(?=[a-z0-9]*[A-Z])(?=[A-Z0-9]*[a-z])[A-Za-z0-9]{6,12})(?![A-Za-z0-9])"
)
"""A number of a process, hexadecimal digits, or letters and digits as `mkdtemp` chooses them."""
_ID = r"[\"']?:? [\"']?(?P<value>(?=[\w-]*\d)[\w-]+)"


@dataclass(frozen=True)
class Mask:
    """One kind of value that differs."""

    kind: str
    pattern: re.Pattern[str]
    """Its group `value` is masked, and everything else of the match is compared."""


def _mask(kind: str, pattern: str) -> Mask:
    return Mask(kind, re.compile(pattern, re.MULTILINE))


MASKS: Sequence[Mask] = (
    _mask("colour", r"(?P<value>\x1b\[[0-9;]*m)"),
    # The slowest tests of pytest: which they are, and in what order, depends on the time alone.
    _mask(
        "duration",
        rf"(?P<value>(?:^{_SECONDS}s (?:call|setup|teardown) +\S+.*\n?)+"
        r"(?:\s*^\(\d+ durations < [\d.]+s hidden\..*\)$)?)",
    ),
    _mask("duration", r"^(?P<value>\(\d+ durations < [\d.]+s hidden\..*\))$"),
    _mask("duration", rf"\b{_VERDICT} in (?P<value>{_SECONDS}s(?: \(\d+:\d\d:\d\d\))?)"),
    # unittest, Django, RSpec, cargo, mocha, jest, vitest, Go, tox, Maven, Gradle, CTest, PHPUnit.
    _mask("duration", rf"^Ran \d+ tests? in (?P<value>{_TIME})"),
    _mask("duration", rf"\b[Ff]inished in (?P<value>{_TIME})"),
    _mask("duration", rf"^\(?files took (?P<value>{_TIME}) to load"),
    _mask("duration", rf"^ *Finished .*target\(s\) in (?P<value>{_TIME})"),
    _mask("duration", rf"\b\d+ (?:passing|pending|failing) \((?P<value>{_TIME})\)"),
    _mask("duration", rf"^ *[✓✔√✕✗×].* \(?(?P<value>{_TIME})\)?$"),
    _mask("duration", rf"^(?:PASS|FAIL) \S+ \((?P<value>{_TIME})\)$"),
    _mask("duration", rf"^ *(?:Time|Duration|Total time|Time taken): *(?P<value>{_TIME})"),
    _mask("duration", rf"^ *Duration +(?P<value>{_TIME}(?: \(.*\))?)$"),
    _mask("duration", rf"^ *--- [A-Z]+: \S+ \((?P<value>{_SECONDS}s)\)$"),
    _mask("duration", rf"^(?:ok|FAIL) *\t\S+\t(?P<value>{_SECONDS}s)"),
    _mask("duration", rf"^.*\bTime elapsed: (?P<value>{_TIME})"),
    _mask("duration", rf"^BUILD [A-Z]+ in (?P<value>{_TIME}(?: {_TIME})?)$"),
    _mask("duration", r"^ *\S+: (?:OK|FAIL)\b.* \((?P<value>[\d.]+(?:=\S+)? seconds)\)$"),
    _mask("duration", rf"(?<!\.)\.{{3,}} *(?:\*\*\*)?(?:Passed|Failed) +(?P<value>{_TIME})$"),
    _mask("duration", rf"^Total Test time \(real\) = +(?P<value>{_TIME})"),
    _mask("duration", r"^Time: (?P<value>[\d:.]+), Memory: "),
    # The shell's `time`, package managers, and the tools of agents.
    _mask("duration", r"^(?:real|user|sys)\s+(?P<value>\d+m\d+\.\d+s|\d+\.\d+)$"),
    _mask("duration", r"^(?P<value>\d+\.\d+user \d+\.\d+system \S+elapsed .*)$"),
    _mask(
        "duration", rf"^(?:added|changed|removed|audited) \d+ packages?.* in (?P<value>{_TIME})$"
    ),
    _mask(
        "duration",
        r"^(?:Resolved|Prepared|Installed|Uninstalled|Audited) \d+ packages? "
        rf"in (?P<value>{_TIME})",
    ),
    _mask("duration", rf"(?i)\b{_LABEL}(?:_m?s|_seconds)?[\"']?:? (?P<value>{_SECONDS})"),
    _mask("duration", r"(?i)\bduration(?:_s|_seconds)?[\"']?: (?P<value>\d+\.\d+)"),
    # Codex counts the tokens of an output, which itself is compared.
    _mask("size of an output", r"^Original token count: (?P<value>\d+)$"),
    _mask("process id", r"(?i)\bp(?:g|p)?ids?\b[\"']?:? (?P<value>\d+)\b"),
    _mask("process id", r"(?i)\bprocess (?:group|(?:group )?id) (?P<value>\d+)\b"),
    _mask(
        "process id",
        r"\bline \d+: +(?P<value>\d+) (?:Killed|Terminated|Aborted|Segmentation fault|Bus error)",
    ),
    _mask("session id", rf"(?i)\b(?:session|chunk|shell|terminal|request|trace)[ _-]?ids?\b{_ID}"),
    _mask(
        "session id",
        r"\b(?P<value>[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})\b",
    ),
    _mask("address", r"\bat (?P<value>0x[0-9a-fA-F]{8,16})\b"),
    _mask(
        "address",
        r"\b(?:localhost|127\.0\.0\.1|0\.0\.0\.0|\[::1?\]):(?P<value>3[3-9]\d{3}|[45]\d{4}|6[0-5]\d{3})\b",
    ),
    _mask(
        "temporary path",
        rf"{_TEMPORARY}/(?:[\w.-]{{1,100}}/){{0,8}}?(?P<value>tmp[a-z0-9_]{{8}})\b",
    ),
    _mask("temporary path", rf"{_TEMPORARY}/(?P<value>tmp\.[A-Za-z0-9]{{6,12}})\b"),
    _mask("temporary path", rf"{_TEMPORARY}/(?:[A-Za-z]+[-_.]+)*(?P<value>{_RANDOM})"),
    _mask("temporary path", r"/pytest-of-\w+/pytest-(?P<value>\d+)\b"),
)

_MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
_CLOCK = (
    r"(?:[T ,]+(?:at )?\d\d?:\d\d(?::\d\d(?:[.,]\d+)?)?(?: ?[AP]M)?"
    r"(?: ?(?:Z|UTC|GMT|[+-]\d\d:?\d\d))?)?"
)
_DATES = re.compile(
    rf"(?P<iso>\b\d{{4}}-\d\d-\d\d{_CLOCK})"
    rf"|(?P<named>(?:\b(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]*,? )?"
    rf"(?:\b(?P<month>{'|'.join(_MONTHS)})[a-z]* {{1,2}}(?P<day>\d\d?)\b"
    rf"|\b(?P<day2>\d\d?) (?P<month2>{'|'.join(_MONTHS)})[a-z]*\b)"
    rf"{_CLOCK}(?:,? \d{{4}}\b)?(?: [+-]\d{{4}})?)"
    rf"|(?P<american>\b\d\d?/\d\d?/\d{{4}}{_CLOCK})"
    r"|(?P<epoch>\b1[6-9]\d{8}(?:\d{3}|\.\d+)?\b)"
    # A time without a date, where logs and test runners print it.
    r"|(?:^|(?<=^\[)|(?<=\bStart at  )|(?<=\bat ))(?P<clock>\d\d:\d\d:\d\d(?:[.,]\d{1,9})?)"
    r"(?![\w:-])",
    re.MULTILINE,
)


@dataclass(frozen=True)
class Masked:
    """A text without what differs."""

    text: str
    removed: tuple[tuple[str, str], ...]
    """Kind and value of each part that is not compared."""


@dataclass
class _Masking:
    """Replaces the values of one pattern. Equal values stay equal, and different ones different."""

    kind: str
    removed: list[tuple[str, str]]
    numbers: dict[str, int] = field(default_factory=dict)

    def __call__(self, match: re.Match[str]) -> str:
        value = match["value"]
        self.removed.append((self.kind, value))
        number = 0
        if self.kind != "duration":
            number = self.numbers.setdefault(value, len(self.numbers))
        if self.kind == "colour":
            return ""
        start, end = (at - match.start() for at in match.span("value"))
        return f"{match[0][:start]}<{self.kind} {number}>{match[0][end:]}"


def mask(text: str, moment: datetime) -> Masked:
    """Mask the values of a text that differ from run to run, and the dates of the run itself.

    `moment` is when the text was sent. Only a date within a day of it is masked, and a time without
    a date in the two hours before it, of UTC or of this machine: any other is content.
    """
    removed: list[tuple[str, str]] = []
    for each in MASKS:
        text = each.pattern.sub(_Masking(each.kind, removed), text)

    def replace_date(match: re.Match[str]) -> str:
        if not _is_near(match, moment):
            return match[0]
        removed.append(("date", match[0]))
        return "<date>"

    return Masked(_DATES.sub(replace_date, text), tuple(removed))


def _is_near(match: re.Match[str], moment: datetime) -> bool:
    """Return True if a date is within a day of a moment."""
    days = [moment.date() + timedelta(days=n) for n in (-1, 0, 1)]
    if text := match["iso"]:
        return text[:10] in map(str, days)
    if text := match["american"]:
        month, day, year = (int(part) for part in re.split(r"[/ T,]", text)[:3])
        return any(
            (month, day, year) in ((d.month, d.day, d.year), (d.day, d.month, d.year)) for d in days
        )
    if text := match["epoch"]:
        seconds = float(text) / (1000 if "." not in text and len(text) == 13 else 1)
        return abs(seconds - moment.timestamp()) < 86_400
    if text := match["clock"]:
        return _is_just_before(text, moment)
    month_name, day_text = match["month"] or match["month2"], match["day"] or match["day2"]
    year_text = re.search(r"\b\d{4}\b(?!.*\b\d{4}\b)", re.sub(r"[+-]\d{4}", "", match[0]))
    return any(
        (month_name, int(day_text)) == (_MONTHS[d.month - 1], d.day)
        and (year_text is None or int(year_text[0]) == d.year)
        for d in days
    )


def _is_just_before(clock: str, moment: datetime) -> bool:
    """Return True if a time of day is in the two hours before a moment."""
    hours, minutes, seconds = (int(part) for part in clock[:8].split(":"))
    clock_s = 3600 * hours + 60 * minutes + seconds
    for sent in (moment.astimezone(UTC), moment.astimezone()):
        sent_s = 3600 * sent.hour + 60 * sent.minute + sent.second
        if (sent_s + 60 - clock_s) % 86_400 <= 7_260:
            return True
    return False


_SEARCH = {"rg", "ag", "ack", "find", "fd", "fdfind"}
_FILTERS = {
    "head",
    "tail",
    "sort",
    "uniq",
    "wc",
    "cut",
    "grep",
    "egrep",
    "sed",
    "cd",
    "true",
    "echo",
}
_SEARCH_TOOLS = re.compile(
    r"(?i)(?:.*_)?(?:grep|glob|ripgrep|search_?files?|find_?files?|file_?search|search_file_content|grep_search)"
)
_SEPARATORS = {"|", "||", "&&", ";", "&", "\n", "|&"}


def prints_in_any_order(tool: str, commands: Sequence[str]) -> bool:
    """Return True if a tool is known to print equal lines in another order each time.

    That is a search through a tree, and tests that run at the same time. `commands` are the
    shell commands among the arguments of its call.
    """
    if _SEARCH_TOOLS.fullmatch(tool):
        return True
    simple = [words for command in commands for words in _split(command)]
    rest = [words for words in simple if words[0] not in _FILTERS or _is_recursive(words)]
    return bool(rest) and all(map(_is_unordered, rest))


def _split(command: str) -> Iterator[list[str]]:
    """Yield the words of each simple command; one unknown command if it cannot be read."""
    lexer = shlex.shlex(command.replace("\n", " ; "), posix=True, punctuation_chars="|&;()<>")
    lexer.whitespace_split = True
    try:
        words = list(lexer)
    except ValueError:
        yield ["?"]
        return
    simple: list[str] = []
    for word in [*words, ";"]:
        if word in _SEPARATORS:
            if simple:
                yield simple
            simple = []
        else:
            simple.append(word)


def _is_unordered(words: Sequence[str]) -> bool:
    if words[:2] == ["git", "grep"] or words[0] in _SEARCH or _is_recursive(words):
        return True
    if words[0] in ("cargo", "go") and "test" in words[1:3]:
        return True
    runs_pytest = "pytest" in words[:4] or words[0].endswith("/pytest")
    return runs_pytest and any(re.match(r"-n(?!o)|--numprocesses", word) for word in words)


def _is_recursive(words: Sequence[str]) -> bool:
    if words[0] not in ("grep", "egrep", "fgrep"):
        return False
    return any(re.match(r"-[a-zA-Z]*[rR]|--recursive", word) for word in words[1:])
