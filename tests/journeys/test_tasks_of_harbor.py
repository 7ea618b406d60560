"""Task folders of Harbor: built, solved, graded by their own tests, and refused in one line."""

import shutil
from pathlib import Path

import pytest

from eval.errors import DatasetError
from eval.readers import harbor
from flows.experiments.cells import Place, plan
from flows.experiments.declaration import Experiment
from tests.journeys.command_line import Terminal
from tests.journeys.test_rows_with_their_own_commands import read_verdicts

CONFIG = """\
schema_version = "1.1"
[metadata]
difficulty = "easy"
[verifier]
timeout_sec = 60.0
env = { EXPECTED = "${HELLO_OF_TESTS:-Hello, world!}" }
[agent]
timeout_sec = 60.0
[environment]
cpus = 1
memory_mb = 1024
"""
DOCKERFILE = "FROM durabench/base:bookworm\nWORKDIR /app\nRUN echo read me >notes.txt\n"
TEST = """\
#!/bin/bash
[ "$(cat hello.txt)" = "$EXPECTED" ] && [ -f /tests/expected.txt ] && reward=1 || reward=0
echo $reward >/logs/verifier/reward.txt
"""
HALF = """\
#!/bin/bash
echo 1 >/logs/verifier/reward.txt
echo '{"reward": 0.5, "speed": 3}' >/logs/verifier/reward.json
"""
ODD = """\
#!/usr/bin/env python3
open("/logs/verifier/reward.json", "w").write('{"reward": "1"}')
"""
CTRF = """\
#!/bin/bash
grep -q Hello hello.txt && status=passed || status=failed
printf '{"results": {"summary": {"tests": 1, "passed": 1}, "tests": [{"status": "%s"}]}}' \\
    $status >/logs/verifier/ctrf.json
"""
"""Without a solution, its summary contradicts its tests."""

NO_REWARD = "the reward in /logs/verifier is not one finite number, or contradicts its tests"


def write_task(folder: Path, test: str = TEST) -> Path:
    """Write a task that asks for a file."""
    for name, text in {
        "task.toml": CONFIG,
        "instruction.md": "Write 'Hello, world!' into hello.txt.\n",
        "environment/Dockerfile": DOCKERFILE,
        "solution/solve.sh": "#!/bin/bash\ncp /solution/answer.txt hello.txt\n",
        "solution/answer.txt": "Hello, world!\n",
        "tests/test.sh": test,
        "tests/expected.txt": "Hello, world!\n",
    }.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


@pytest.mark.docker
@pytest.mark.timeout(900)
@pytest.mark.journey("run", "images preflight", "export --harbor", "import harbor")
def test_the_reward_of_a_task_decides(tmp_path: Path) -> None:
    """The reference script earns the reward, and nothing does not. Half a reward is not enough,
    unless the task declares it. A task that cannot be used does not stop the others."""
    tasks = tmp_path / "tasks"
    for name, test in {"hello": TEST, "half": HALF, "ctrf": CTRF, "odd": ODD}.items():
        write_task(tasks / name, test)
    of_user = "RUN useradd -m dev && chown -R dev /app\nUSER dev\n"
    (tasks / "ctrf" / "environment" / "Dockerfile").write_text(f"{DOCKERFILE}{of_user}")
    enough = write_task(tasks / "enough", HALF)
    declared = CONFIG.replace("[metadata]", "[metadata]\nresolved_reward = 0.5")
    (enough / "task.toml").write_text(declared)
    broken = write_task(tasks / "several")
    (broken / "steps").mkdir()
    lost = write_task(tasks / "lost")
    (lost / "environment" / "Dockerfile").write_text("FROM localhost:9/none\nWORKDIR /app\n")
    terminal = Terminal(tmp_path, limit_s=600)
    arms = [{"name": name, "agent": name} for name in ("gold", "null")]
    content = {"name": "h", "dataset": "tasks", "arms": arms, "environment": "docker"}
    printed = terminal.durabench("run", terminal.write("h.yaml", content), code=3)
    assert "cannot be built" in printed
    assert "2 of 12 cells ended as infrastructure" in printed
    assert "a Harbor task with several steps is not supported: run it with Harbor" in printed
    assert read_verdicts(terminal, "h") == {
        ("gold", "hello"): "resolved",
        ("gold", "half"): "unresolved",
        ("gold", "enough"): "resolved",
        ("null", "enough"): "resolved",
        ("gold", "ctrf"): "resolved",
        ("gold", "odd"): "unresolved",
        ("null", "odd"): "unresolved",
        ("null", "hello"): "unresolved",
        ("null", "half"): "unresolved",
        ("null", "ctrf"): "unresolved",
    }
    reasons = {row["instance_id"]: row["reason"] for row in terminal.rows("evaluations")}
    assert reasons["half"] == "the reward is 0.5"
    assert reasons["odd"] == NO_REWARD
    assert {
        row["reason"] for row in terminal.rows("evaluations") if row["instance_id"] == "ctrf"
    } == {"", NO_REWARD}
    terminal.durabench("export", "h", "--harbor", "job")
    terminal.durabench("import", "harbor", "job", "--name", "again")
    imported = read_verdicts(terminal, "again", "outcome")
    assert {cell for cell, verdict in imported.items() if verdict == "resolved"} == {
        ("gold-none", "hello"),
        ("gold-none", "ctrf"),
    }
    halves = [row["reward"] for row in terminal.rows("evaluations") if row["instance_id"] == "half"]
    assert halves == [0.5] * 4
    assert "job exists" in terminal.durabench("export", "h", "--harbor", "job", code=2)
    checked = terminal.durabench("images", "preflight", "--dataset", "tasks", "--id", "hello")
    assert "passes" in checked


REFUSED: dict[str, tuple[str, str | None, str]] = {
    "is not TOML": ("task.toml", "=", "has a task.toml that is not TOML"),
    "deep": ("task.toml", f"a = {'[' * 5000}", "has a task.toml that is not TOML"),
    "long": ("task.toml", f"a = {'1' * 5000}", "has a task.toml that is not TOML"),
    "wrong value": ("task.toml", "[verifier]\ntimeout_sec = -1", "verifier.timeout_sec"),
    "windows": ("task.toml", "[environment]\nos = 'windows'", "needs containers of windows"),
    "gpu": ("task.toml", "[environment]\ngpus = 1", "needs a GPU"),
    "servers": ("task.toml", "[[environment.mcp_servers]]\nname = 'a'", "needs MCP servers"),
    "steps": ("task.toml", "[[steps]]\nname = 'a'", "with several steps"),
    "other image": ("task.toml", "[verifier.environment]\ncpus = 1", "another image for its tests"),
    "secrets": ("task.toml", "[verifier]\nenv = {A = '${KEY}'}", "takes A from this machine"),
    "no default": ("task.toml", "[solution]\nenv = {A = 'b-${KEY:-c}'}", "takes A from this"),
    "shell of Windows": ("tests/test.sh", "#!/bin/bash\r\nexit\r\n", "line ends in tests/test.sh"),
    "lines": ("task.toml", '[environment]\nenv = {A = "b\\nc"}', "several lines"),
    "memory": ("task.toml", "[environment]\nmemory = 'much'", "memory must be a positive number"),
    "some hosts": (
        "task.toml",
        "[agent]\nnetwork_mode = 'allowlist'\nallowed_hosts = ['a.b']",
        "reaches some hosts only",
    ),
    "service": ("task.toml", "[environment.healthcheck]\ncommand = 'true'", "a running service"),
    "compose": ("environment/docker-compose.yaml", "", "needs several containers"),
    "no folder": ("environment/Dockerfile", "FROM a\n", "names no working folder"),
    **{
        f"no {name}": (name, None, Path(name).name)
        for name in ("instruction.md", "tests/test.sh", "environment/Dockerfile")
    },
}


@pytest.mark.parametrize(("file", "text", "message"), REFUSED.values(), ids=REFUSED)
def test_a_task_that_cannot_be_used_says_why(
    tmp_path: Path, file: str, text: str | None, message: str
) -> None:
    """One line says what the task needs, or which file it lacks."""
    folder = write_task(tmp_path / "hello")
    if text is None:
        (folder / file).unlink()
    else:
        (folder / file).write_text(text, newline="")
    with pytest.raises(DatasetError) as failure:
        harbor.parse(folder)
    assert str(failure.value).startswith("a Harbor task ")
    assert message in str(failure.value)
    assert "\n" not in str(failure.value)


def test_a_task_limits_time_and_network(tmp_path: Path) -> None:
    """The time counts if the arm declares none. A phase can do without the experiment's network."""
    folder = write_task(tmp_path / "hello")
    limits = "[agent]\ntimeout_sec = 90\n[environment]\nallow_internet = false\n"
    (folder / "task.toml").write_text(f"{limits}[verifier]\nnetwork_mode = 'public'\n")
    cells = []
    for options in ({}, {"time_limit_s": 30}):
        arm = {"name": "gold", "agent": "gold", "options": options}
        content = {"name": "h", "dataset": "tasks", "arms": [arm], "environment": "docker"}
        place = Place("docker", network=True)
        cells += plan(Experiment.model_validate(content), [harbor.parse(folder)], place)
    assert [cell.options.time_limit_s for cell in cells] == [90, 30]
    networks = [place.has_network(cells[0].instance, phase) for phase in ("work", "tests")]
    assert networks == [False, True]


@pytest.mark.parametrize(
    "name", ["tests/passwd", "instruction.md", "task.toml", "tests", "environment", "solution"]
)
def test_links_of_a_task_are_not_followed(tmp_path: Path, name: str) -> None:
    """A link could copy a file of this machine into a prompt or a container."""
    elsewhere = write_task(tmp_path / "elsewhere")
    (elsewhere / "tests" / "passwd").write_text("secret")
    link = write_task(tmp_path / "hello") / name
    if link.exists():
        link.rename(tmp_path / "moved")
    link.symlink_to(elsewhere / name)
    with pytest.raises(DatasetError, match=f"symbolic link, {link.name}"):
        harbor.parse(tmp_path / "hello")


def test_a_date_in_a_task_is_text(tmp_path: Path) -> None:
    """TOML has dates, which rows and digests do not."""
    folder = write_task(tmp_path / "hello")
    date = "2026-01-02"
    (folder / "task.toml").write_text(
        f"[metadata]\ndifficulty = {date}\n[environment]\nof = {date}"
    )
    instance = harbor.parse(folder)
    assert instance.digest
    assert instance.row["difficulty"] == instance.row["environment"]["of"] == date


def test_equal_folders_are_equal_instances(tmp_path: Path) -> None:
    """Neither time nor place of a folder changes the digest of its task."""
    first = write_task(tmp_path / "a" / "hello")
    second = Path(shutil.copytree(first, tmp_path / "b" / "hello"))
    assert harbor.parse(first).digest == harbor.parse(second).digest
    (second / "tests" / "expected.txt").write_text("other")
    assert harbor.parse(first).digest != harbor.parse(second).digest
