"""`durabench power`: the differences that a plan can detect, from given or measured rates."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from flows.cli.app import app
from tests.reports.lake_fixture import LakeBuilder


def printed(*arguments: str) -> str:
    """Return the output of a command that succeeds, joined to one line."""
    result = CliRunner().invoke(app, ["power", *arguments], env={"COLUMNS": "200"})
    assert result.exit_code == 0, result.output
    return " ".join(result.output.split())


def refused(*arguments: str) -> str:
    """Return the one error line of a command that is refused."""
    result = CliRunner().invoke(app, ["power", *arguments])
    assert result.exit_code == 2, result.output
    [line] = result.stderr.strip().splitlines()
    return line


@pytest.fixture
def measured(tmp_path: Path) -> LakeBuilder:
    """Return a lake with `trial`: ten instances, of which `quick` and `careful` disagree on
    three."""
    root = tmp_path / "lake"
    root.mkdir()
    lake = LakeBuilder(root)
    instances = [f"i{number}" for number in range(10)]
    lake.declare(["quick", "careful"], instances)
    lake.fill({"quick": 4}, instances)
    for number, instance in enumerate(instances):
        lake.cell("careful", instance, "resolved" if 1 <= number < 6 else "unresolved")
    return lake


def test_the_table_shows_the_answer_and_what_it_assumes() -> None:
    """The table shows the answer and its rates, each marked as given or assumed."""
    output = printed("--instances", "60", "--repeats", "2", "--discordance", "0.3")
    assert "smallest detectable difference" in output
    assert "The paired test of the report, two-sided at 5.0 %" in output
    assert "With repeats: in 4,000 simulated runs" in output
    assert "Discordance 30.0 %: given" in output
    assert "correlate by 0.50: assumed" in output
    output = printed("--instances", "100", "--difference", "0.1", "--discordance", "0.3")
    assert "241" in output
    assert "power with 100" in output
    assert "40.9 %" in output
    assert "correlate" not in output


def test_the_discordance_of_an_earlier_run(measured: LakeBuilder) -> None:
    """A measured discordance is shown with its source and its confidence interval."""
    lake = str(measured.root)
    output = printed("--instances", "100", "--from", "trial", "--lake", lake)
    assert "Discordance 30.0 %: 3 of 10 pairs of quick and careful in trial" in output
    assert "95 % interval 10.8 % to 60.3 %" in output


def test_arms_that_agree_have_no_discordance(lake_path: str) -> None:
    """If two arms agree on every pair, the discordance has to be given."""
    Path(lake_path).mkdir()
    lake = LakeBuilder(Path(lake_path))
    lake.declare(["a", "b"], ["i1"])
    for arm in ("a", "b"):
        lake.cell(arm, "i1")
    line = refused("--instances", "9", "--from", "trial", "--lake", lake_path)
    assert "a and b agree on all of 1 pair: give --discordance" in line


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ("", "give --instances"),
        ("--difference 0", "above 0"),
        ("--difference 0.3", "cannot be larger"),
        ("--instances 9 --discordance 1.5", "between 0 and 1"),
        ("--instances 9 --power 1", "power of 1.0"),
        ("--instances 9 --repeats 2 --correlation 2", "correlation of 2.0"),
        ("--instances 9 --discordance 0.1 --from trial", "not both"),
        ("--instances 9 --from trial --lake absent", "there is no lake"),
    ],
)
def test_a_question_without_an_answer_is_refused(arguments: str, reason: str) -> None:
    """A question without an answer is refused in one line that says what to change."""
    assert reason in refused(*arguments.split())
