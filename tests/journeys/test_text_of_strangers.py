"""Text of models, programs and files reaches no terminal and no page as a control sequence."""

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


@pytest.mark.journey("run", "trace", "history", "diagnose", "status", "graph", "report")
def test_an_attempt_is_shown_without_its_control_sequences(terminal: Terminal) -> None:
    """Its model's answer, its tool's output and the name of a file contain them. Each command
    shows them as text, in pipes and on a terminal, and so do the pages."""
    work = f"printf '%s\\n' '{HOSTILE}'; touch 'x{HOSTILE}'; exit 3"
    end = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT && git add -A && git diff --cached"
    replies = [{"command": command, "content": HOSTILE} for command in (work, "ls", end)]
    model = {"provider": "scripted", "replies": replies}
    arms = [{"name": "odd", "agent": "mini", "model": model}]
    select = {"ids": ["durabench__gridprint-1"]}
    content = {"name": "odd", "dataset": "bundled", "select": select, "arms": arms}
    file = terminal.write("odd.yaml", {**content, "environment": "host"})
    check(terminal.attempt("run", file).stderr)
    [row] = terminal.rows("attempts")
    attempt = row["attempt_id"]
    printed = terminal.durabench("trace", attempt, "--full")
    check(printed)
    assert SHOWN in printed
    for arguments in (
        ("history", attempt, "--all"),
        ("diagnose", attempt),
        ("graph", attempt),
        ("status", "odd", "--cells"),
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


@pytest.mark.journey("run", "job run", "pipeline check", "chat")
def test_secrets_and_tasks_without_text_are_refused_in_a_line(terminal: Terminal) -> None:
    """The line names the field and the kind. A secret can also be in a named file."""
    key = "sk-ant-" + "a1b2" * 8
    work = {"source": "octo/demo", "model": "a/b", "arms": [{"name": "mini", "agent": "mini"}]}
    base = {"name": "x", "dataset": "bundled", "arms": [{"name": "null", "agent": "null"}]}
    recipe = terminal.write(
        "tiny.yaml",
        {"name": "tiny", "dialect": "chat", "run": f"X={key} tiny", "description": "tiny"},
    )
    program = {"name": "tiny", "agent": "command", "options": {"recipe": recipe}, "model": "a/b"}
    for name, content, where in (
        ("plain", base | {"dataset": f"s3://me:{key}@host/x"}, "dataset: it holds a key"),
        ("recipe", base | {"arms": [program]}, "arms.0.options.recipe.run: it holds a key"),
    ):
        line = terminal.refused("run", terminal.write(f"{name}.yaml", content))
        assert f"{where} of Anthropic" in line
        assert key not in line
    steps = [{"name": "one", "task": "use \\u0067hp_" + "a1" * 18}]
    line = terminal.refused(
        "pipeline", "check", terminal.write("p.yaml", {**work, "name": "p", "steps": steps})
    )
    assert "steps.0.task: it holds a token of GitHub" in line
    run = ("job", "run", "octo/demo", "--arm", "mini", "--model", "a/b")
    assert "task: it holds an address with a password" in terminal.refused(
        *run, "fetch https://me:pass@host/x"
    )
    assert "the task is empty" in terminal.refused(*run, " \u200b")
    talk = ("chat", "--repo", "octo/demo", "--model", "a/b", "-m", f"use {key}")
    assert "message: it holds a key of Anthropic" in terminal.refused(*talk)
