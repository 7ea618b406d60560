"""The command line: fast help, and a one-line message for every mistake of an operator."""

import json
import resource
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from eval import instances
from flows.cli.app import app

GOLD = "{name: gold, agent: gold}"


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every test in a folder of its own, with the lake in it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DURABENCH_LAKE", str(tmp_path / "lake"))


PREDICTION = (
    '{"instance_id": "durabench__gridprint-1", "model_name_or_path": "a", "model_patch": ""}\n'
)


@pytest.fixture
def no_server(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine on which Prefect's server must not be asked for."""
    monkeypatch.setattr("flows.cli.running.prefect_api", lambda: pytest.fail("a server is started"))


def test_help_answers_at_once() -> None:
    """Under half a second: nothing slow is imported. Of processor time, the best of three, for
    on a busy machine the clock measures what else runs."""
    command = [str(Path(sys.executable).with_name("durabench")), "--help"]
    seconds = []
    for _ in range(3):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(command, check=True, capture_output=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    assert min(seconds) < 0.5


def fails(*arguments: str, because: str) -> None:
    """Exit code 2, one line with the reason, no traceback, and nothing written."""
    before = set(Path.cwd().rglob("*"))
    result = CliRunner().invoke(app, list(arguments))
    assert result.exit_code == 2, result.output
    [line] = result.stderr.strip().splitlines()
    assert line.startswith("durabench: ")
    assert because in line
    assert set(Path.cwd().rglob("*")) == before


def experiment(text: str) -> str:
    Path("trial.yaml").write_text(text)
    return "trial.yaml"


def dataset(**changes: object) -> str:
    row = {**instances.load("bundled")[0].row, **changes}
    kept = {key: value for key, value in row.items() if value is not None}
    Path("rows.jsonl").write_text(json.dumps(kept, default=str))
    return "rows.jsonl"


def test_an_unknown_key_is_refused() -> None:
    """The key is named with its place."""
    path = experiment(f"name: t\narms: [{GOLD}]\ncolour: red\n")
    fails("run", path, because="trial.yaml: colour: unknown key")


def test_an_unknown_arm_is_refused() -> None:
    """The known ones are named."""
    path = experiment("name: t\narms: [{name: a, agent: golden}]\n")
    fails("run", path, because="'mini', 'mini_retry', 'durable', 'gold', 'null'")


def test_a_missing_experiment_is_refused() -> None:
    """The path is named."""
    fails("run", "absent.yaml", because="cannot read absent.yaml")


def test_an_unknown_experiment_has_near_matches() -> None:
    """An empty folder is no lake."""
    fails("report", "absent", because="there is no lake")


def test_an_unknown_attempt_is_refused() -> None:
    """The way to list them is told."""
    fails("trace", "absent", because="durabench status NAME --cells")


def test_a_missing_folder_of_trajectories_is_refused() -> None:
    """Nothing is declared for an import that brings nothing."""
    fails("import", "mini", "absent", "-d", "bundled", "--name", "x", because="no *.traj.json")


@pytest.mark.usefixtures("no_server")
class TestBeforeAServerIsStarted:
    """What reading the data and looking at the machine shows, which takes a second."""

    @pytest.mark.parametrize(
        ("content", "because"),
        [
            (None, "predictions.jsonl: there is no such file"),
            ("", "there is no prediction in it"),
            ("no JSON\n", "line 1: not JSON"),
            (PREDICTION + PREDICTION, "line 2: a second prediction for durabench__gridprint-1"),
            (PREDICTION.replace("gridprint", "gridprimt"), "did you mean durabench__gridprint-1"),
            ('{"instance_id": "a"}\n', "the prediction has no model_name_or_path"),
        ],
        ids=["missing", "empty", "no JSON", "twice", "unknown instance", "no patch"],
    )
    def test_a_bad_predictions_file_is_refused(self, content: str | None, because: str) -> None:
        """The place in the file is named."""
        if content is not None:
            Path("predictions.jsonl").write_text(content)
        fails("grade", "predictions.jsonl", "--name", "x", because=because)

    def test_a_name_that_cannot_be_one_is_refused(self) -> None:
        """Before the predictions are looked up."""
        Path("predictions.jsonl").write_text(PREDICTION)
        fails("grade", "predictions.jsonl", "--name", "A B", because="cannot name results")

    def test_an_attempt_to_fork_has_to_be_there(self) -> None:
        """Neither a server nor a lake is made for one that is not."""
        fails("fork", "absent", "--at", "1", because="0 attempts in")

    def test_an_instance_to_debug_has_to_be_there(self) -> None:
        """As in an experiment."""
        fails("debug", "durabench__x-1", because="not in the dataset: durabench__x-1")

    @pytest.mark.parametrize(
        ("instance", "arguments", "because"),
        [
            ("quillet-1", ["-a", "able"], "experiment 't' has no arm 'able'; it has gold, null"),
            ("quillet-1", [], "experiment 't' has no arm 'mini'; it has gold, null"),
            ("slotwise-1", ["-a", "gold"], "name one that it does (durabench__quillet-1), or add"),
            ("quilet-1", ["-a", "gold"], "did you mean durabench__quillet-1"),
            ("quillet-1", ["-a", "gold", "-d", "bundled"], "--dataset does not go with --exp"),
            ("quillet-1", ["-a", "gold", "--skill", "1"], "--skill does not go with --experiment"),
            ("quillet-1", ["-a", "gold", "--api-base", "x"], "--api-base goes with --model"),
        ],
    )
    def test_a_cell_to_debug_has_to_be_in_the_file(
        self, instance: str, arguments: list[str], because: str
    ) -> None:
        """The arms of the file and the ways to choose another instance are told."""
        arms = f"[{GOLD}, {{name: 'null', agent: 'null'}}]"
        path = experiment(f"name: t\nselect: {{ids: [durabench__quillet-1]}}\narms: {arms}\n")
        fails("debug", f"durabench__{instance}", "-x", path, *arguments, because=because)

    def test_a_row_without_the_swebench_5_columns_is_refused(self) -> None:
        """The missing columns are named, and what to use instead."""
        rows = dataset(image=None, eval_script=None)
        path = experiment(f"name: t\ndataset: {rows}\narms: [{GOLD}]\nenvironment: host\n")
        fails("run", path, because="no value for image, eval_script; use a swebench 5 dataset")

    def test_an_unknown_instance_is_refused(self) -> None:
        """Near matches are offered."""
        path = experiment(f"name: t\nselect: {{ids: [durabench__x-1]}}\narms: [{GOLD}]\n")
        fails("run", path, because="not in the dataset: durabench__x-1")

    def test_docker_that_is_asked_for_and_absent_is_refused(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The way out is told."""
        monkeypatch.setattr("agent.workspaces.container._connect", refuse_docker)
        path = experiment(f"name: t\narms: [{GOLD}]\n")
        fails("run", path, "-e", "docker", because="environment: docker was asked for, but")

    def test_a_lake_that_cannot_be_written_is_refused(self) -> None:
        """The path and the ways to choose another are told."""
        Path("file").touch()
        path = experiment(f"name: t\narms: [{GOLD}]\nenvironment: host\n")
        fails("run", path, "--lake", "file", because="cannot write to the lake")


def refuse_docker() -> None:
    from docker.errors import DockerException

    raise DockerException("no socket")
