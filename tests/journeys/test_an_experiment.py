"""An experiment from its file to its report, and everything that looks at it."""

import json
import os
import re
import shutil
from pathlib import Path

import pytest

from eval import instances
from flows.cli.exits import EXIT_INFRASTRUCTURE
from flows.storage.lake import Row
from tests.journeys.command_line import Terminal
from tests.servers.prefect_server import PrefectServer

pytestmark = pytest.mark.slow

FIRST, SECOND = [instance.instance_id for instance in instances.load("bundled")[:2]]

EXPERIMENT = """\
name: trial
environment: {environment}
select: {{ids: [{ids}]}}
arms:
  - {{name: able, agent: mini, model: {{provider: simulated, skill: 1}}}}
  - {{name: unable, agent: mini, model: {{provider: simulated, skill: 0}}}}
  - {{name: gold, agent: gold}}
  - {{name: "null", agent: "null"}}
primary: {{baseline: unable, candidate: able}}
"""


def run(terminal: Terminal, environment: str) -> dict[tuple[str, str], Row]:
    """Run the experiment on two instances. Return its attempts by arm and instance."""
    text = EXPERIMENT.format(environment=environment, ids=f"{FIRST}, {SECOND}")
    (terminal.folder / "trial.yaml").write_text(text)
    printed = terminal.durabench("run", "trial.yaml")
    assert "[8/8]" in printed
    assert "able against unable (primary)" in printed
    return read_attempts(terminal)


def read_attempts(terminal: Terminal) -> dict[tuple[str, str], Row]:
    """Return the attempts of the experiment by arm and instance."""
    return {
        (arm, row["instance_id"]): row
        for arm in ("able", "unable", "gold", "null")
        for unit in terminal.lake.units("attempts", "*", "trial", arm)
        for row in terminal.lake.read("attempts", "trial", arm, unit)
    }


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory, prefect_server: PrefectServer) -> Path:
    """Return a folder in which the experiment has run on the host."""
    folder = tmp_path_factory.mktemp("finished")
    run(Terminal(folder, {"PREFECT_API_URL": prefect_server.url}), "host")
    return folder


@pytest.fixture
def after(terminal: Terminal, finished: Path) -> Terminal:
    """Return a terminal in a copy of that folder."""
    shutil.copytree(finished, terminal.folder, dirs_exist_ok=True)
    return terminal


@pytest.mark.journey("run")
def test_it_runs(terminal: Terminal, environment: str) -> None:
    """Each arm gets the verdicts that it earns."""
    attempts = run(terminal, environment)
    assert {row["environment"] for row in attempts.values()} == {environment}
    verdicts = {row["attempt_id"]: row["outcome"] for row in terminal.rows("evaluations")}
    of_cell = {cell: verdicts[row["attempt_id"]] for cell, row in attempts.items()}
    earned = {"able": "resolved", "gold": "resolved", "null": "unresolved"}
    found = {cell: verdict for cell, verdict in of_cell.items() if cell[0] in earned}
    assert found == {cell: earned[cell[0]] for cell in found}
    assert of_cell["unable", SECOND] == "unresolved"
    pages = terminal.folder / "lake" / "reports" / "trial"
    assert "simulated model" in (pages / "index.html").read_text()
    assert ("no isolation" in (pages / "report.md").read_text()) == (environment == "host")


@pytest.mark.journey("run")
@pytest.mark.parametrize("table", ["predictions", "llm_calls"])
def test_a_damaged_file_is_restored(after: Terminal, table: str) -> None:
    """One line names it, and what to move away with it. Then a run writes it again."""
    terminal = after
    rows = sorted(terminal.rows(table), key=str)
    file = next((terminal.folder / "lake" / table).rglob("arm=able/*.parquet"))
    os.truncate(file, 100)
    printed = terminal.durabench("run", "trial.yaml", code=EXIT_INFRASTRUCTURE)
    [line] = printed.partition("durabench: ")[2].splitlines()
    assert line.startswith(f"{file} is damaged: ")
    assert ("with its file in attempts" in line) == (table == "llm_calls")
    report = terminal.attempt("report", "trial")
    assert f"{file} is damaged: " in report.stderr
    assert "Traceback" not in report.stderr
    if table == "llm_calls":
        Path(str(file).replace(table, "attempts")).unlink()
    file.rename(terminal.folder / "damaged.parquet")
    terminal.durabench("run", "trial.yaml")
    assert sorted(terminal.rows(table), key=str) == rows


@pytest.mark.journey(
    *("run", "status", "trace", "graph", "diagnose", "fork --at", "fork --change"),
    *("report", "report --compare", "report --cutoff", "history", "prune"),
)
def test_it_runs_once_and_can_be_looked_at(after: Terminal) -> None:
    """After its rows were put into few files, a second run does nothing. Every command shows the
    same attempts, verdicts and costs."""
    terminal, attempts = after, read_attempts(after)
    verdicts = {row["attempt_id"]: row["outcome"] for row in terminal.rows("evaluations")}
    only_rows = ("prune", "--older-than", "0h", "--only", "rows")
    assert "files of attempts that ended fit into about " in terminal.durabench(*only_rows)
    assert "were compacted into " in terminal.durabench(*only_rows, "--remove")
    assert not list((terminal.folder / "lake" / "attempts").rglob("arm=*/*.parquet"))
    assert "[8/8] done by an earlier run" in terminal.durabench("run", "trial.yaml")
    assert len(terminal.rows("evaluations")) == 8

    resolved = list(verdicts.values()).count("resolved")
    assert f"8 of 8 cells done ({resolved} resolved)" in terminal.durabench("status", "trial")
    status = json.loads(terminal.durabench("status", "trial", "--json"))
    assert (status["planned"], status["resolved"]) == (8, resolved)
    assert status["calls"] == sum(row["model_calls"] for row in attempts.values())

    solved, failed = attempts["able", FIRST], attempts["unable", SECOND]
    assert verdicts[failed["attempt_id"]] == "unresolved"
    trace = terminal.durabench("trace", solved["attempt_id"][:8], "--full")
    assert trace.count(" model ") >= solved["model_calls"]
    assert json.loads(terminal.durabench("graph", solved["attempt_id"], "--format", "json"))
    assert "durabench fork" in terminal.durabench("diagnose", failed["attempt_id"])

    (terminal.folder / "able.yaml").write_text("model: {provider: simulated, skill: 1}\n")
    fork = ("fork", failed["attempt_id"])
    planned = terminal.durabench(*fork, "--change", "able.yaml", "--dry-run")
    assert f"of {failed['model_calls']} calls again, " in planned
    assert "reuses at least 1 of " in terminal.durabench(*fork, "--at", "1", "--dry-run")
    assert f"unable on {SECOND}: " in terminal.durabench(*fork, "--at", "2")
    assert len(terminal.rows("attempts")) == 9

    report = terminal.durabench("report", "trial", "--compare", "unable", "able")
    page = re.search(r"Report: (\S+)", report)
    assert page is not None
    assert "able" in (terminal.folder / page[1]).read_text()
    model = attempts["able", FIRST]["model"]
    dated = terminal.durabench("report", "trial", "--cutoff", f"{model}=2000-01-01")
    page = re.search(r"Report: (\S+)", dated)
    assert page is not None
    assert "after 2000-01-01" in (terminal.folder / page[1]).read_text()
    assert "able" in terminal.durabench("history", "trial")


@pytest.mark.journey(
    *("export", "export --duckdb", "export --atif", "export --inspect", "grade", "report"),
    *("import atif", "import inspect", "import table"),
)
def test_it_is_exchanged_with_other_programs(after: Terminal) -> None:
    """Exports can be imported, with the same verdicts and costs, and are graded equally."""
    terminal = after
    first = terminal.durabench("status", "trial", "--json")
    resolved = {arm["arm"]: arm["resolved"] for arm in json.loads(first)["arms"]}
    terminal.durabench("export", "trial", "-o", "out", "--trajectories")
    terminal.durabench("export", "trial", "--duckdb", "one.duckdb")
    terminal.durabench("export", "trial", "--atif", "atif")
    terminal.durabench("export", "trial", "--inspect", "log.eval")
    one = (terminal.folder / "one.duckdb").stat().st_size
    terminal.durabench("export", "--duckdb", "all.duckdb")
    assert (terminal.folder / "all.duckdb").stat().st_size >= one
    terminal.durabench("import", "atif", "atif", "--name", "from-atif")
    terminal.durabench("import", "inspect", "log.eval", "--name", "from-inspect")
    for name in ("from-atif", "from-inspect"):
        report = terminal.durabench("report", name)
        assert f"able   │ {resolved['able']} of 2" in report, report
    graded = terminal.durabench(
        "grade", "out/able/all_preds.jsonl", "--name", "again", "-e", "host"
    )
    assert f"able resolves {resolved['able']} of 2" in graded
    (terminal.folder / "table.csv").write_text(
        f"arm,instance_id,resolved,cost_usd\nx,{FIRST},1,0.5\ny,{FIRST},0,\n"
    )
    assert "cost unknown" in terminal.durabench("import", "table", "table.csv", "--name", "table")
    both = terminal.durabench("report", "trial", "table")
    assert "x@table" in both
    assert "able@trial" in both
