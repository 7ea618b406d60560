"""Changes in SEARCH/REPLACE blocks, as programs without tools read them."""

import re

import pytest

from agent.models import patches
from eval import instances
from eval.types import Instance

BLOCK = re.compile(r"^(\S+)\n```\n<<<<<<< SEARCH\n(.*?)=======\n(.*?)>>>>>>> REPLACE$", re.M | re.S)

ASKED = [{"role": "system", "content": "Describe each change with a *SEARCH/REPLACE block*."}]


@pytest.mark.parametrize("instance", instances.load(instances.BUNDLED), ids=lambda i: i.instance_id)
def test_the_blocks_are_the_change(instance: Instance) -> None:
    """Applied as text to the lines before each hunk, they give the lines after it."""
    said = patches.reply(instance.patch, ASKED)
    blocks = BLOCK.findall(said)
    assert len(blocks) == instance.patch.count("\n@@ ")
    removed = [line[1:] for line in instance.patch.splitlines() if re.match(r"-(?!--)", line)]
    added = [line[1:] for line in instance.patch.splitlines() if re.match(r"\+(?!\+\+)", line)]
    before, after = ("".join(texts).splitlines() for texts in list(zip(*blocks, strict=True))[1:])
    assert set(removed) <= set(before)
    assert set(added) <= set(after)
    assert all(f"diff --git a/{path} b/{path}\n" in instance.patch for path, _, _ in blocks)


def test_the_change_is_given_until_the_program_can_have_it() -> None:
    """A program that only adds the files to its conversation asks once more, and then is done."""
    patch = instances.load(instances.BUNDLED)[0].patch
    assert patches.are_wanted(ASKED)
    assert not patches.are_wanted([{"role": "user", "content": "Repair it."}])
    talk = list(ASKED)
    for _ in range(2):
        said = patches.reply(patch, talk)
        assert "<<<<<<< SEARCH" in said
        talk.append({"role": "assistant", "content": said})
    assert "<<<<<<< SEARCH" not in patches.reply(patch, talk)
