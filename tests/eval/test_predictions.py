"""Predictions are written and read in the official harness's file formats."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eval.errors import PredictionsError
from eval.predictions import read, write_jsonl
from eval.types import Prediction

ONE = {"instance_id": "a-1", "model_name_or_path": "m", "model_patch": "diff"}


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("all_preds.jsonl", json.dumps(ONE) + "\n\n"),
        ("preds.json", json.dumps([ONE])),
        ("preds.json", json.dumps({"a-1": ONE})),
        ("preds.json", json.dumps({"a-1": {"model_name_or_path": "m", "model_patch": "diff"}})),
    ],
)
def test_every_official_form_is_read(tmp_path: Path, name: str, content: str) -> None:
    """JSON lines, a list, and an object by instance id give the same predictions."""
    (tmp_path / name).write_text(content)
    assert read(tmp_path / name) == [Prediction("a-1", "m", "diff")]


def test_no_patch_is_the_empty_patch(tmp_path: Path) -> None:
    """A `model_patch` of null is read as the empty patch."""
    (tmp_path / "p.jsonl").write_text(json.dumps(ONE | {"model_patch": None}))
    assert read(tmp_path / "p.jsonl")[0].model_patch == ""


@given(st.lists(st.text(), max_size=5))
def test_predictions_survive_a_round_trip(
    tmp_path_factory: pytest.TempPathFactory, patches: list[str]
) -> None:
    """Any text survives a round trip: line separators, carriage returns, lone surrogates."""
    path = tmp_path_factory.mktemp("predictions") / "all_preds.jsonl"
    predictions = [Prediction(f"i-{n}", "m", patch) for n, patch in enumerate([*patches, "\udcff"])]
    write_jsonl(path, predictions)
    assert read(path) == predictions


def test_a_file_is_replaced_whole(tmp_path: Path) -> None:
    """A write that fails halfway leaves the old file and no temporary file."""
    path = tmp_path / "out" / "all_preds.jsonl"
    write_jsonl(path, [Prediction("a-1", "m", "old")])

    def interrupted():
        yield Prediction("a-1", "m", "new")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_jsonl(path, interrupted())
    assert read(path)[0].model_patch == "old"
    assert list(path.parent.iterdir()) == [path]


def test_a_folder_that_cannot_be_made_is_one_line(tmp_path: Path) -> None:
    """If the folder cannot be made, a one-line error says that the file cannot be written."""
    (tmp_path / "file").write_text("")
    with pytest.raises(PredictionsError, match="cannot be written"):
        write_jsonl(tmp_path / "file" / "all_preds.jsonl", [])


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("p.jsonl", json.dumps(ONE) + "\n{", "line 2: not JSON"),
        ("p.jsonl", '"text"', "line 1: a prediction must be an object"),
        ("p.jsonl", '{"instance_id": "a"}', "line 1: the prediction has no model_name_or_path"),
        ("p.jsonl", json.dumps(ONE | {"model_patch": 3}), "line 1: the three fields .* be text"),
        ("p.jsonl", f"{json.dumps(ONE)}\n{json.dumps(ONE)}", "line 2: a second prediction for a-1"),
        ("p.json", "[\n{", "p.json: not JSON: .*line 2"),
        ("p.json", "3", "expected a list or an object"),
        ("p.json", '{"a-1": "diff"}', "key a-1: a prediction must be an object"),
        ("p.txt", "", "ends in .jsonl or .json"),
    ],
)
def test_a_broken_file_names_the_place(
    tmp_path: Path, name: str, content: str, message: str
) -> None:
    """An invalid file is reported in one line that names the line or item to repair."""
    (tmp_path / name).write_text(content)
    with pytest.raises(PredictionsError, match=message) as failure:
        read(tmp_path / name)
    assert "\n" not in str(failure.value)
