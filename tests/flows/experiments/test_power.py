"""`durabench power`: the differences that a plan can detect, from given or measured rates."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from flows.cli.app import app
from flows.experiments.power import Assumption, Question, answer
from reports.statistics.power import (
    Design,
    detection_power,
    instances_needed,
    smallest_detectable_difference,
)
from tests.reports.lake_fixture import LakeBuilder

pytestmark = pytest.mark.sampled(2)

ASSUMED = Assumption(0.3, "assumed", 0.5, "assumed")


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
    for number, instance in enumerate(instances):
        lake.cell("quick", instance, "resolved" if number < 4 else "unresolved")
        lake.cell("careful", instance, "resolved" if 1 <= number < 6 else "unresolved")
    return lake


def test_instances_give_the_smallest_difference() -> None:
    """A number of instances gives the smallest difference it detects. Repeats make it smaller."""
    one, two = answer(Question(60, 2, None, 0.8), ASSUMED)
    for repeats, row in enumerate((one, two), 1):
        design = Design(60, repeats, 0.3, 0.0, 0.5)
        assert row.difference == smallest_detectable_difference(design, 0.8)
    assert (one.instances, two.instances) == (60, 60)
    assert two.difference < 0.9 * one.difference


def test_a_difference_gives_the_instances() -> None:
    """A difference gives the number of instances needed, and the power of the planned instances."""
    one, two = answer(Question(60, 2, 0.15, 0.8), ASSUMED)
    design = Design(60, 1, 0.3, 0.15, 0.5)
    assert one.instances == instances_needed(design, 0.8)
    assert one.power == detection_power(design)
    assert two.instances < 0.9 * one.instances
    assert two.power > 1.1 * one.power


def test_repeats_that_always_agree_add_nothing() -> None:
    """Repeats do not reduce the number of instances if the repeats of an instance always agree."""
    rows = answer(Question(None, 3, 0.1, 0.8), Assumption(0.3, "assumed", 1.0, "assumed"))
    assert [row.instances for row in rows] == [241, 241, 241]


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


def test_the_correlation_of_an_earlier_run_with_repeats(tmp_path: Path) -> None:
    """If all repeats of an earlier run agree, the measured correlation is 1."""
    root = tmp_path / "lake"
    root.mkdir()
    lake = LakeBuilder(root)
    lake.declare(["a", "b"], ["i1", "i2"], repeats=2)
    for repeat in range(2):
        lake.cell("a", "i1", "resolved", repeat=repeat)
        lake.cell("a", "i2", "unresolved", repeat=repeat)
        for instance in ("i1", "i2"):
            lake.cell("b", instance, "resolved", repeat=repeat)
    output = printed("--instances", "9", "--repeats", "2", "--from", "trial", "--lake", str(root))
    assert "correlate by 1.00: that of trial" in output
    assert "Repeats or more instances? For the same number of cells, instances are never" in output
    assert "100.0 % is between instances" in output


def test_instances_that_tell_arms_apart_are_proposed(tmp_path: Path) -> None:
    """Instances that 30 to 70 % of the earlier attempts resolved are a selection, with its bias."""
    root = tmp_path / "lake"
    root.mkdir()
    lake = LakeBuilder(root)
    lake.declare(["a", "b", "c"], ["i1", "i2"])
    for arm in ("a", "b", "c"):
        lake.cell(arm, "i1", "resolved" if arm == "a" else "unresolved")
        lake.cell(arm, "i2", "resolved")
    output = printed("--instances", "9", "--from", "trial", "--lake", str(root))
    assert "This choice favours differences" in output
    assert 'select: {ids: ["i1"]}' in output
    assert "Repeats or more instances?" not in output


def test_arms_that_agree_have_no_discordance(lake_path: str) -> None:
    """If two arms agree on every pair, the discordance has to be given."""
    Path(lake_path).mkdir()
    lake = LakeBuilder(Path(lake_path))
    lake.declare(["a", "b"], ["i1"])
    for arm in ("a", "b"):
        lake.cell(arm, "i1")
    line = refused("--instances", "9", "--from", "trial", "--lake", lake_path)
    assert "a and b agree on all of 1 pair: give --discordance" in line


def test_one_arm_has_no_discordance(lake_path: str) -> None:
    """A run with only one arm cannot supply a discordance."""
    Path(lake_path).mkdir()
    lake = LakeBuilder(Path(lake_path))
    lake.declare(["a"], ["i1"])
    lake.cell("a", "i1")
    assert "has only one arm" in refused("--instances", "9", "--from", "trial", "--lake", lake_path)


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


def test_a_difference_that_no_plan_can_detect_is_stated() -> None:
    """The table says so if no difference can be detected, or only with over a million instances."""
    assert "none" in printed("--instances", "3")
    assert "over a million" in printed("--difference", "0.001", "--discordance", "0.5")
