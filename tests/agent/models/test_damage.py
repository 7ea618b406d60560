"""A damaged patch applies to the same base and has a different result."""

import random
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.models.patches import parse, render, renumber
from agent.models.simulated.reference import damage
from tests.agent.models.patch_cases import CASES, Case, make, tree_after


def test_paths_are_those_of_the_tree(tmp_path: Path) -> None:
    """New and deleted files have a path on one side only, and quoted paths are decoded."""
    expected = {
        "new file": [(None, "new/b.py")],
        "deleted file": [("a.py", None)],
        "renamed": [("a.py", "b.py")],
        "binary": [("a.bin", "a.bin")],
        "non-ascii": [("größe é.py", "größe é.py")],
        "empty file": [(None, "pkg/__init__.py")],
    }
    for case in CASES:
        if case.name in expected:
            files = parse(make(case, tmp_path / case.name))
            assert [(file.old_path, file.new_path) for file in files] == expected[case.name]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_damage_applies_and_is_wrong(case: Case, tmp_path: Path) -> None:
    """A patch is rendered as it was parsed. Its damage applies, with a different tree."""
    repo = tmp_path / "repo"
    patch = make(case, repo)
    assert render(parse(patch)) == render(renumber(file) for file in parse(patch)) == patch
    right = tree_after(repo, patch)
    for damaged in {damage(patch, random.Random(seed)) for seed in range(4)}:
        assert damaged != patch
        assert tree_after(repo, damaged) != right


@given(
    lines=st.lists(st.sampled_from(["a == 1", "if x:", "", "# note", "return y", "b"]), max_size=9),
    seed=st.integers(0, 99),
    cuts=st.lists(st.integers(0, 8), max_size=4),
)
@settings(max_examples=10)
def test_damage_of_any_edit_applies(
    lines: list[str], seed: int, cuts: list[int], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Damage to edits of files with many equal lines still applies."""
    base = [line for n in range(9) for line in (f"line {n}", "same", "same", "same")]
    edited = [line for n, line in enumerate(base) if n // 4 not in cuts]
    at = seed % (len(edited) + 1)
    edited[at:at] = lines
    texts = ["".join(f"{line}\n" for line in side).encode() for side in (base, edited)]
    if texts[0] == texts[1]:
        return
    repo = tmp_path_factory.mktemp("edit") / "repo"
    patch = make(Case("edit", {"a.py": texts[0]}, {"a.py": texts[1]}), repo)
    assert tree_after(repo, damage(patch, random.Random(seed))) != tree_after(repo, patch)


def test_real_reference_patches_can_be_damaged(shared_data: Path) -> None:
    """Every reference patch of SWE-bench can be parsed and damaged into a consistent diff."""
    rows = pytest.importorskip("pyarrow.parquet").read_table(
        shared_data / "swebench" / "verified_test.parquet", columns=["patch"]
    )
    for number, patch in enumerate(rows["patch"].to_pylist()):
        assert render(parse(patch)) == patch
        broken = damage(patch, random.Random(number))
        assert broken not in (patch, "")
        assert render(renumber(file) for file in parse(broken)) == broken
