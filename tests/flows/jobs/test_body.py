"""Text of strangers stays text in a pull request and in the title of a commit."""

import itertools
import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.token import Token

from flows.jobs import body
from flows.jobs.changes import find_automation, read_changes, tell_automation
from reports.quoting import TITLE_CHARACTERS, quote_title

OURS = {"Task", "Steps", "Changes", "Verification", "Cost", "How to continue"}
PARTS = [
    *("Fixes #1", "closes: octo/other#2", "Resolves GH-3", "implements !4", "Fix [issue:5]"),
    "Closes https://forge.example/octo/other/issues/6",
    *("@octocat", "@octo/team", "(@a", "#7", "|", "`", "``", "```", "~~~", "````", "\\", "[x](y)"),
    *(
        "![leak](http://evil.example/p.png)",
        "<img src=http://evil.example/i.png>",
        "<details open>",
    ),
    *(
        "<!--",
        "</pre>",
        "# Heading",
        "\n# Heading",
        "\nHeading\n===\n",
        "> quote",
        "\n",
        "\r",
        "\n\n",
    ),
    *("\u2028", "\x1b]0;x\x07", "\u202e", "- item", "    code", "$x$", "[skip ci]", "[ci skip]"),
    *("***NO_CI***", "/close", "\n/merge\n", "word", " "),
]
texts = st.lists(st.sampled_from(PARTS), max_size=12).map("".join)


def patch_of(*paths: str) -> str:
    """Return a patch that adds a line to each file."""
    return "".join(f"--- a/{path}\n+++ b/{path}\n@@ -0,0 +1 @@\n+x\n" for path in paths)


def row_of(text: str) -> dict[str, Any]:
    """Return the row of a job in which strangers have written a text wherever they can."""
    step = {"name": "one", "state": "done", "verdict": "nothing_broke", "arm": "a", "detail": text}
    run = {"exit_code": 0, "passed": ["a"], "failed": [], "errors": [], "skipped": []}
    verification = {"steps": [step], "before": run, "after": run, "with_old_tests": None}
    verification |= {"warnings": text.splitlines(), "agent_verdict": text}
    return {
        "verdict": "nothing_broke",
        "reason": text,
        "statement": text,
        "arm": text or "a",
        "patch": patch_of("x" + re.sub(r"\s", "", text)),
        "verify_command": text,
        "verification": json.dumps(verification),
        "cost_usd": 1.0,
        "input_tokens": 1,
        "output_tokens": 2,
        "job_id": "abc123",
        "attempt_id": "f" * 32,
        "base_branch": text or "main",
        "base_commit": "c" * 40,
    }


def every(tokens: list[Token]) -> Iterator[Token]:
    for token in tokens:
        yield token
        yield from every(token.children or [])


@given(texts)
def test_a_pull_request_is_not_written_by_strangers(text: str) -> None:
    """It has our headings only, and no HTML, picture, link or mention of theirs. No reference to
    an issue is left anywhere, as some forges also look into code."""
    shown = body.body(row_of(text), "d" * 40)
    assert not re.search(r"[#!]\d|\bGH-\d|\bissue:\d|/issues/\d", shown)
    assert set(shown) <= {"\n"} | {each for each in shown if each.isprintable()}
    tokens = MarkdownIt("commonmark", {"html": True}).enable("table").parse(shown)
    headings = [
        after.content for token, after in itertools.pairwise(tokens) if token.type == "heading_open"
    ]
    assert set(headings) <= OURS
    assert len(headings) == len(set(headings)) == len(OURS)
    kinds = {token.type for token in every(tokens)}
    assert not kinds & {"html_block", "html_inline", "image", "link_open", "blockquote_open"}
    words = [token.content for token in every(tokens) if token.type == "text"]
    assert not [each for each in words if re.search(r"(?<![A-Za-z0-9])@\w", each)]


@given(texts)
def test_a_title_is_one_line_without_effect(text: str) -> None:
    """It closes no issue, mentions no user, skips no pipeline and is not a command of the forge."""
    title = quote_title(text)
    assert len(title) <= TITLE_CHARACTERS
    assert title == "" or title.isprintable()
    assert not re.search(r"[#!]\d|\bGH-\d|/issues/\d|(?<![A-Za-z0-9])@\w|[\[\]]|\*\*|^/\w", title)


def test_an_ordinary_title_stays() -> None:
    """Only a long one is cut."""
    assert quote_title("Add, don't subtract (issue: e-mail a@b.c)") == (
        "Add, don't subtract (issue: e-mail a@b.c)"
    )
    assert quote_title("x" * 73) == "x" * 71 + "…"


@pytest.mark.parametrize(
    "path",
    [
        *(".github/workflows/ci.yml", ".github/actions/a/action.yml", "sub/.gitlab-ci.yml"),
        *(".circleci/config.yml", "Jenkinsfile", "ci/Jenkinsfile.release", "azure-pipelines.yml"),
        *(".forgejo/workflows/x.yaml", ".gitea/workflows/x.yaml", "bitbucket-pipelines.yml"),
        *(".woodpecker.yml", ".woodpecker/x.yml", ".buildkite/pipeline.yml", ".GitHub/workflows/x"),
    ],
)
def test_a_patch_says_that_it_touches_what_runs_by_itself(path: str) -> None:
    """So do patches that rename such a file, or that only name it in the form without git."""
    assert [found for found, _ in find_automation(patch_of("a.py", path))] == [path]
    assert path in tell_automation(patch_of(path))
    renamed = f"diff --git a/{path} b/z\nsimilarity index 100%\nrename from {path}\nrename to z\n"
    assert [found for found, _ in find_automation(renamed)] == [path]
    shown = body.body(row_of("x") | {"patch": patch_of(path)}, "")
    assert f"with the secrets of the repository:**\n\n- `{path}`: " in shown


def test_an_ordinary_patch_has_no_warning() -> None:
    """Similar names do not count. The files of a patch are the files that git reads."""
    patch = patch_of("github/x.py", "docs/workflows.md", "jenkins.md")
    assert find_automation(patch) == []
    assert tell_automation(None) == ""
    assert read_changes(patch)[0] == ("github/x.py", 1, 0)
    assert read_changes("") == read_changes("no patch") == []
