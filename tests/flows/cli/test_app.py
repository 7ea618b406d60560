"""The command line: fast help, and a one-line message for every mistake of an operator."""

import re
import resource
import subprocess
import sys
from contextlib import nullcontext
from importlib.metadata import version
from pathlib import Path

import pytest
from typer.testing import CliRunner

from flows.cli.app import GROUPS, app
from tests.flows.formats.trajectories import HARBOR_JOB
from tests.reports.lake_fixture import LakeBuilder
from tests.reports.many_arms import fill

GOLD = "{name: gold, agent: gold}"


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run every test in a folder of its own, which contains the lake."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DURABENCH_LAKE", str(tmp_path / "lake"))


PREDICTION = (
    '{"instance_id": "durabench__gridprint-1", "model_name_or_path": "a", "model_patch": ""}\n'
)


@pytest.fixture
def no_server(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fail the test if a command contacts or starts a Prefect server."""
    monkeypatch.setattr("flows.cli.running.prefect_api", lambda: pytest.fail("a server is started"))


def test_help_answers_at_once() -> None:
    """`durabench --help` takes less than twice the processor time of Typer's own help, because it
    imports nothing slow. The best of three counts; wall-clock time would include other
    processes."""
    durabench = [str(Path(sys.executable).with_name("durabench")), "--help"]
    typer = [sys.executable, "-m", "typer", "--help"]
    rounds = [(_processor_time(durabench), _processor_time(typer)) for _ in range(3)]
    ours, plain = (min(seconds) for seconds in zip(*rounds, strict=True))
    assert ours < 2 * plain


def test_the_version_is_that_of_the_package() -> None:
    """A bug report can name the release."""
    shown = CliRunner().invoke(app, ["--version"])
    assert (shown.exit_code, shown.stdout) == (0, f"durabench {version('durabench')}\n")


def test_help_lists_every_command_in_a_group() -> None:
    """What a new user needs comes first, and nothing is left in a group without a name."""
    shown = CliRunner().invoke(app, ["--help"]).stdout
    panels = re.findall(r"╭─ ([A-Z][a-z ]+) ─", shown)
    assert panels == ["Options", *GROUPS]
    first = re.findall(r"│ ([a-z-]+)  ", shown.partition("Start here")[2].partition("╰")[0])
    assert first == ["demo", "compare", "run", "init", "status", "report", "doctor"]


def _processor_time(command: list[str]) -> float:
    """Run a command. Return the seconds of processor time that it used."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def fails(*arguments: str, because: str) -> None:
    """Assert that a command exits with code 2 and a one-line reason, and writes nothing."""
    before = set(Path.cwd().rglob("*"))
    result = CliRunner().invoke(app, list(arguments))
    assert result.exit_code == 2, result.output
    [line] = result.stderr.strip().splitlines()
    assert line.startswith("durabench: ")
    assert because in line
    assert set(Path.cwd().rglob("*")) == before


@pytest.mark.parametrize(
    "arguments",
    [["report", "trial"], ["compare", f"first={HARBOR_JOB}", f"second={HARBOR_JOB}"]],
    ids=["report", "compare"],
)
def test_a_report_loads_neither_prefect_nor_a_database(
    tmp_path: Path, arguments: list[str]
) -> None:
    """A report of results without steps imports neither Prefect nor SQLAlchemy nor the arms."""
    fill(LakeBuilder(tmp_path / "lake"), 3, 12, priced=True)
    program = (
        "import atexit, sys\n"
        "from flows.cli.app import app\n"
        "slow = {'prefect', 'sqlalchemy', 'litellm', 'agent.arms', 'agent.models'}\n"
        "atexit.register(lambda: print(sorted(slow & sys.modules.keys())))\n"
        f"app({arguments})"
    )
    found = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert found.stdout.endswith("index.html\n[]\n")


def experiment(text: str) -> str:
    Path("trial.yaml").write_text(text)
    return "trial.yaml"


def test_a_file_and_options_that_declare_are_refused() -> None:
    """The file says what to run. Without either, the line says what to type."""
    path = experiment(f"name: t\narms: [{GOLD}]\n")
    fails("run", path, "--sample", "2", because="--budget go without a file: change trial.yaml")
    fails("run", because="say what to run: durabench run --dataset SWE-bench/SWE-bench_Verified")


def test_an_unknown_capability_is_refused_before_anything_runs(tmp_path: Path) -> None:
    """An unknown capability is an error in the declaration, and leaves no lake."""
    options = "options: {capabilities: [files, filez]}"
    path = experiment(
        "name: t\nenvironment: host\nmodel: {provider: simulated, skill: 1}\n"
        f"arms: [{{name: a, agent: loop, {options}}}]\n"
    )
    lake = tmp_path / "lake"
    fails("run", path, "--lake", str(lake), because="there is no capability 'filez': name one of")
    assert not lake.exists()


@pytest.mark.usefixtures("no_server")
class TestBeforeAServerIsStarted:
    """Mistakes that are reported within a second, before a Prefect server is started."""

    @pytest.mark.parametrize(
        ("content", "because"),
        [
            (None, "predictions.jsonl: there is no such file"),
            ("", "predictions.jsonl contains no prediction"),
            ("no JSON\n", "line 1: not JSON"),
            (PREDICTION + PREDICTION, "line 2: a second prediction for durabench__gridprint-1"),
            (PREDICTION.replace("gridprint", "gridprimt"), "did you mean durabench__gridprint-1"),
            ('{"instance_id": "a"}\n', "the prediction has no model_name_or_path"),
        ],
        ids=["missing", "empty", "no JSON", "twice", "unknown instance", "no patch"],
    )
    def test_a_bad_predictions_file_is_refused(self, content: str | None, because: str) -> None:
        """An invalid predictions file is refused with the line and the fault."""
        if content is not None:
            Path("predictions.jsonl").write_text(content)
        fails("grade", "predictions.jsonl", "--name", "x", because=because)

    @pytest.mark.parametrize(
        ("arguments", "because"),
        [
            (["grade", "predictions.jsonl", "--name", "A B"], "cannot name results"),
            (["fork", "absent", "--at", "1"], "the id 'absent' fits 0 attempts in"),
            (["trace", "absent"], "durabench status NAME --cells"),
            (["report", "absent"], "there is no lake"),
        ],
        ids=lambda each: each[0],
    )
    def test_an_absent_or_invalid_name_is_refused(self, arguments: list[str], because: str) -> None:
        """The line says what to type, and no lake is made."""
        Path("predictions.jsonl").write_text(PREDICTION)
        fails(*arguments, because=because)

    @pytest.mark.parametrize(
        ("instance", "arguments", "because"),
        [
            ("quillet-1", ["-a", "able"], "experiment 't' has no arm 'able'; it has gold, null"),
            ("quillet-1", [], "experiment 't' has no arm 'mini'; it has gold, null"),
            ("slotwise-1", ["-a", "gold"], "name a selected one (durabench__quillet-1), or add"),
            ("quilet-1", ["-a", "gold"], "did you mean durabench__quillet-1"),
            ("quillet-1", ["-a", "gold", "-d", "bundled"], "--dataset does not go with --exp"),
            ("quillet-1", ["-a", "gold", "--skill", "1"], "--skill does not go with --experiment"),
            ("quillet-1", ["-a", "gold", "--api-base", "x"], "--api-base needs a model"),
        ],
    )
    def test_a_cell_to_debug_has_to_be_in_the_file(
        self, instance: str, arguments: list[str], because: str
    ) -> None:
        """A cell that the experiment file lacks is refused. The line lists the file's arms or says
        how to choose an instance."""
        arms = f"[{GOLD}, {{name: 'null', agent: 'null'}}]"
        path = experiment(f"name: t\nselect: {{ids: [durabench__quillet-1]}}\narms: {arms}\n")
        fails("debug", f"durabench__{instance}", "-x", path, *arguments, because=because)


def test_docker_without_a_daemon_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A request for Docker is refused if no daemon answers."""
    monkeypatch.setattr("flows.cli.running.prefect_api", nullcontext)
    monkeypatch.setattr("agent.workspaces.docker_daemon._connect", refuse_docker)
    path = experiment(f"name: t\narms: [{GOLD}]\n")
    fails("run", path, "-e", "docker", because="environment: docker was asked for, but")


def refuse_docker() -> None:
    from docker.errors import DockerException

    raise DockerException("no socket")
