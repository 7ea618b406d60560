"""Datasets of every kind become the same typed instances, or cause a one-line error."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from eval import harness, log_formats
from eval.errors import DatasetError
from eval.instances import dataset_digest, load, read, task_repo
from eval.types import Instance

MakeRow = Callable[..., dict[str, Any]]


def one_line(failure: pytest.ExceptionInfo[DatasetError]) -> str:
    text = str(failure.value)
    assert "\n" not in text
    return text


@pytest.mark.parametrize(
    ("name", "rows"), [("lite_dev", 23), ("lite_test", 300), ("verified_test", 500)]
)
def test_real_datasets_load_completely(shared_data: Path, name: str, rows: int) -> None:
    """Every row of SWE-bench Lite and Verified in the swebench 5 form loads without correction."""
    instances = load(str(shared_data / "swebench" / f"{name}.parquet"))
    assert len(instances) == rows
    assert all(instance.fail_to_pass and instance.image for instance in instances)
    assert len({instance.digest for instance in instances}) == rows


def test_one_row_is_the_same_from_every_kind_of_file(tmp_path: Path, make_row: MakeRow) -> None:
    """Parquet, JSON lines and JSON give equal instances with equal digests."""
    row = make_row()
    pq.write_table(pa.Table.from_pylist([row]), tmp_path / "rows.parquet")
    (tmp_path / "rows.jsonl").write_text(json.dumps(row) + "\n\n")
    (tmp_path / "rows.json").write_text(json.dumps([row]))
    loaded = [load(str(tmp_path / f"rows.{kind}")) for kind in ("parquet", "jsonl", "json")]
    assert loaded[0] == loaded[1] == loaded[2]
    assert loaded[0][0].fail_to_pass == ("test_calc.py::test_add",)
    assert loaded[0][0].pass_to_pass == ("test_calc.py::test_add_zero", "test_calc.py::test_double")


@pytest.fixture
def tiny_task_repo(tmp_path: Path, make_row: MakeRow) -> Path:
    root = tmp_path / "task-repo"
    for number, split in ((1, "test"), (2, "dev")):
        row = make_row(instance_id=f"tiny__calc-{number}")
        folder = root / "tasks" / row["instance_id"]
        folder.mkdir(parents=True)
        files = {
            "problem_statement.md": row["problem_statement"],
            "gold.patch": row["patch"],
            "test.patch": row["test_patch"],
            "eval.sh": row["eval_script"],
            "tests.json": json.dumps({"FAIL_TO_PASS": ["a"], "PASS_TO_PASS": []}),
        }
        for name, content in files.items():
            (folder / name).write_text(content)
        kept = ("instance_id", "repo", "base_commit", "image", "log_parser", "eval_type")
        task = {key: row[key] for key in kept} | {"split": split, "version": 1.5}
        (folder / "task.yaml").write_text(json.dumps(task))
    return root


def test_a_task_repo_gives_the_tasks_of_one_split(tiny_task_repo: Path) -> None:
    """Only the requested split of a task repo is loaded."""
    (instance,) = load(str(tiny_task_repo), split="dev")
    assert (instance.instance_id, instance.version) == ("tiny__calc-2", "1.5")
    assert task_repo(str(tiny_task_repo)) == tiny_task_repo


def test_rows_older_than_swebench_5_are_refused(tmp_path: Path, make_row: MakeRow) -> None:
    """Rows older than swebench 5 are refused. The line names the missing columns and a dataset that
    has them."""
    row = make_row(image=None, eval_script=None, log_parser=None, eval_type=None)
    (tmp_path / "old.jsonl").write_text(json.dumps(row))
    with pytest.raises(DatasetError) as failure:
        load(str(tmp_path / "old.jsonl"))
    text = one_line(failure)
    assert "no value for image, eval_script, log_parser, eval_type" in text
    assert "SWE-bench/SWE-bench_Verified" in text


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"log_parser": "parse_log_nothing"}, "has no log parser 'parse_log_nothing'"),
        ({"eval_type": "pass"}, "eval_type 'pass' must be fail_only or pass_and_fail"),
        ({"FAIL_TO_PASS": "not json"}, "FAIL_TO_PASS must be a list of test names"),
        ({"PASS_TO_PASS": [1]}, "PASS_TO_PASS must be a list of test names"),
        ({"instance_id": "../escape"}, "instance_id may hold letters"),
        ({"base_commit": "--upload-pack=x"}, "base_commit must be a commit id"),
        ({"base_commit": 7}, "base_commit must be text, not int"),
        ({"image": ""}, "no value for image"),
        ({"image_assets": '{"test_patch": [{"path": "a.png"}]}'}, "image_assets are not supported"),
        ({"image_assets": "{"}, "image_assets is not JSON"),
        (
            {
                "image_assets": '{"problem_statement": ["a.png"]}',
                "problem_statement": "As you see:\n![shot](a.png)\n<img src='b.png'>",
            },
            "the statement is little but images",
        ),
    ],
)
def test_an_unusable_value_is_named_with_its_row(
    tmp_path: Path, make_row: MakeRow, columns: dict[str, Any], message: str
) -> None:
    """An invalid value is reported in one line with file, row and column."""
    (tmp_path / "rows.jsonl").write_text(json.dumps(make_row(**columns)))
    with pytest.raises(DatasetError) as failure:
        load(str(tmp_path / "rows.jsonl"))
    text = one_line(failure)
    assert message in text
    assert "rows.jsonl, row 1" in text


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("twice.jsonl", "{row}\n{row}\n", "tiny__calc-1 is in it more than once"),
        ("empty.jsonl", "", "no instances in it"),
        ("broken.jsonl", "{{", "line 1 is not JSON"),
        ("broken.json", "[", "cannot be read"),
        ("object.json", "{row}", "expected a list of rows"),
        ("text.json", '["text"]', "a row must be an object with columns, not str"),
        ("no.parquet", "text", "cannot be read"),
        ("rows.csv", "a,b", "a dataset file ends in .parquet, .jsonl, .json"),
    ],
)
def test_an_unusable_file_is_one_line(
    tmp_path: Path, make_row: MakeRow, name: str, content: str, message: str
) -> None:
    """An unreadable or invalid file is reported in one line with its name and the fault."""
    (tmp_path / name).write_text(content.format(row=json.dumps(make_row())))
    with pytest.raises(DatasetError) as failure:
        load(str(tmp_path / name))
    assert message in one_line(failure)
    assert name in str(failure.value)


ASSETS = {"image_assets": '{"test_patch": [{"path": "a.png"}]}'}


def write_rows(folder: Path, kind: str, rows: list[dict[str, Any]]) -> str:
    """Write rows as one kind of dataset. Return its name."""
    path = folder / f"rows.{kind}"
    if kind == "parquet":
        pq.write_table(pa.Table.from_pylist(rows), path)
    elif kind == "jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    elif kind == "json":
        path.write_text(json.dumps(rows))
    else:
        for row in rows:
            tests = {name: row.pop(name) for name in ("FAIL_TO_PASS", "PASS_TO_PASS")}
            files = {
                "problem_statement.md": row.pop("problem_statement"),
                "gold.patch": row.pop("patch"),
                "test.patch": row.pop("test_patch"),
                "eval.sh": row.pop("eval_script"),
                "tests.json": json.dumps(tests),
                "task.yaml": json.dumps({**row, "split": "test"}),
            }
            (path / "tasks" / row["instance_id"]).mkdir(parents=True)
            for name, content in files.items():
                (path / "tasks" / row["instance_id"] / name).write_text(content)
    return str(path)


@pytest.fixture(params=["parquet", "jsonl", "json", "task-repo", "hub"])
def mixed(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    make_row: MakeRow,
    monkeypatch: pytest.MonkeyPatch,
) -> str:
    """Write a dataset of each kind with four usable and two unusable rows. Return its name."""
    assets = {"image_assets": ""}
    rows = [make_row(instance_id=f"tiny__calc-{n}", **assets) for n in range(6)]
    rows[1] |= ASSETS
    rows[4]["log_parser"] = "parse_log_nothing"
    if request.param != "hub":
        return write_rows(tmp_path, request.param, rows)
    import datasets

    given = datasets.Dataset.from_list(rows)
    monkeypatch.setattr(datasets, "load_dataset", lambda *_, **__: given)
    return "somebody/tiny"


def test_rows_that_cannot_be_used_are_left_out_with_a_reason(mixed: str) -> None:
    """The others keep their order, and one line has the counts, the reasons and the first ids."""
    found = read(mixed)
    assert [each.instance_id[-1] for each in found.instances] == ["0", "2", "3", "5"]
    assert found.warning == (
        f"2 of 6 rows of {mixed} cannot be used (1: image_assets are not supported; leave "
        "multimodal instances out, first tiny__calc-1; 1: swebench "
        f"{harness.version()} has no log parser 'parse_log_nothing'; correct the name or install "
        "the swebench release that has it, first tiny__calc-4)"
    )


@pytest.mark.parametrize(
    "line", [b"{", b"[1]", b"7", b'"\xff"', b"[" * 100_000, b'{"instance_id": 3}']
)
def test_a_line_that_is_no_row_is_left_out(tmp_path: Path, make_row: MakeRow, line: bytes) -> None:
    """A line that is not JSON, not UTF-8 or not an object is one unusable row."""
    path = tmp_path / "rows.jsonl"
    path.write_bytes(line + b"\n" + json.dumps(make_row()).encode())
    found = read(str(path))
    assert len(found.instances) == 1
    assert "1 of 2 rows" in found.warning
    assert "first row 1)" in found.warning


def test_a_value_of_parquet_that_is_no_text_is_left_out(tmp_path: Path, make_row: MakeRow) -> None:
    """Bytes that are not UTF-8 in one row refuse that row only."""
    table = pa.Table.from_pylist([make_row(), make_row(instance_id="tiny__calc-2")])
    patches = [b"caf\xe9", b""]
    column = pa.Array.from_buffers(pa.string(), 2, pa.array(patches, pa.binary()).buffers())
    table = table.set_column(table.column_names.index("patch"), "patch", column)
    pq.write_table(table, tmp_path / "rows.parquet")
    found = read(str(tmp_path / "rows.parquet"))
    assert [each.instance_id for each in found.instances] == ["tiny__calc-2"]
    assert "first tiny__calc-1)" in found.warning


def test_a_missing_file_is_not_looked_for_elsewhere() -> None:
    """A missing file is an error; its path is not looked up on Hugging Face."""
    with pytest.raises(DatasetError, match="there is no such file or folder"):
        load("nowhere/rows.parquet")


def test_hugging_face_out_of_reach_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """If Hugging Face is unreachable, a dataset that is not cached fails in one line."""
    import datasets

    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", True)
    with pytest.raises(DatasetError, match="Hugging Face did not deliver it") as failure:
        load("durabench-test/no-such-dataset")
    one_line(failure)


def test_a_digest_depends_on_the_content_of_the_row(make_instance: Callable[..., Instance]) -> None:
    """Any changed column changes the digest of a row. The digest of a dataset ignores row order."""
    one, other = make_instance(), make_instance(hints_text="look at add")
    third = make_instance(instance_id="tiny__calc-3")
    assert one.digest != other.digest
    assert dataset_digest([one, third]) == dataset_digest([third, one])
    assert dataset_digest([one, third]) != dataset_digest([other, third])


def test_hard_coded_names_exist_in_the_harness() -> None:
    """The names hard-coded to avoid the slow import exist in the installed swebench."""
    from swebench.harness.constants import END_TEST_OUTPUT, START_TEST_OUTPUT, EvalType
    from swebench.harness.log_parsers import PARSER_REGISTRY

    assert set(PARSER_REGISTRY) >= set(log_formats.FORMATS)
    assert harness.log_markers() == (START_TEST_OUTPUT, END_TEST_OUTPUT)
    assert {kind.value for kind in EvalType} == harness.EVAL_TYPES
