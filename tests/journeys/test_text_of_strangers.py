"""What models, programs and files say reaches no terminal and no page as a control sequence."""

import unicodedata
from pathlib import Path

import pytest

from tests.journeys.command_line import PROGRAM, Terminal
from tests.terminal import Terminal as RealTerminal

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

HOSTILE = "\x1b]52;c;ZXZpbA==\x07\x1b]0;OWNED\x07\x1b[2J\x1b[8mhidden\x9b31m\r\u202egnp.exe\u200b"
SHOWN = r"\x1b]52;c;ZXZpbA==\x07"


def check(printed: str) -> None:
    """Check that a text holds no controls, overrides or invisible characters."""
    found = {each for each in printed if unicodedata.category(each) in ("Cc", "Cf", "Cs")}
    assert found <= {"\n", "\t"}


@pytest.mark.journey(
    "run", "trace", "trace --tree", "history", "diagnose", "status", "graph", "report"
)
def test_an_attempt_is_shown_without_its_control_sequences(
    terminal: Terminal, environment: str
) -> None:
    """Its model says them, its tool prints them, and a file is named like them. Each command
    shows them as text, in pipes and on a terminal, and so do the pages."""
    work = f"printf '%s\\n' '{HOSTILE}'; touch 'x{HOSTILE}'; exit 3"
    end = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT && git add -A && git diff --cached"
    replies = [{"command": command, "content": HOSTILE} for command in (work, "ls", end)]
    model = {"provider": "scripted", "replies": replies}
    arms = [{"name": "odd", "agent": "mini", "model": model}]
    select = {"ids": ["durabench__gridprint-1"]}
    content = {"name": "odd", "dataset": "bundled", "select": select, "arms": arms}
    file = terminal.write("odd.yaml", {**content, "environment": environment})
    check(terminal.attempt("run", file).stderr)
    [row] = terminal.rows("attempts")
    attempt = row["attempt_id"]
    for arguments in (
        ("trace", attempt),
        ("trace", attempt, "--full"),
        ("trace", attempt, "--tree"),
    ):
        printed = terminal.durabench(*arguments)
        check(printed)
        assert SHOWN in printed
    for arguments in (
        ("history", attempt, "--all"),
        ("diagnose", attempt),
        ("graph", attempt),
        ("graph", attempt, "--format", "json"),
        ("status", "odd", "--cells"),
        ("status", "odd", "--json"),
        ("report", "odd"),
    ):
        done = terminal.attempt(*arguments)
        assert "Traceback" not in done.stderr
        check(done.stdout + done.stderr)
    pages = [path for path in Path(terminal.lake.root, "reports").rglob("*.*") if path.is_file()]
    texts = [page.read_text() for page in pages if page.suffix in (".html", ".md")]
    assert any(SHOWN in text for text in texts)
    for text in texts:
        check(text)
    with RealTerminal(
        [*PROGRAM, "trace", attempt, "--full"], terminal.environment, terminal.folder
    ) as real:
        real.until(f"{attempt}: ")
        real.ended()
        assert SHOWN in real.raw
        for part in ("\x1b]", "\x1b[2J", "\x1b[8m", "\x9b", "\u202e", "\u200b"):
            assert part not in real.raw
