"""The pages agree with the code: commands, options, settings, fields and links exist."""

import ast
import re
import subprocess
from pathlib import Path

import pytest
import yaml
from typer.main import get_command

from agent.timings import OperatorTimings, Timings, variable
from flows.cli.app import app
from tests.timing import reasons

ROOT = Path(__file__).resolve().parents[1]

LONGEST = {
    "README.md": 120,
    "CONTRIBUTING.md": 100,
    "agent/README.md": 100,
    "eval/README.md": 100,
    "flows/README.md": 100,
    "reports/README.md": 100,
}
"""Pages that have to stay short, with their maximum number of lines."""

OTHERS = (
    "eval/DATASETS.md",
    "AGENTS.md",
    "CHANGELOG.md",
    "SECURITY.md",
    "agent/ARCHITECTURE.md",
    "agent/DURABLE.md",
    "agent/CAPABILITIES.md",
    "agent/LIBRARY.md",
    "agent/LOCAL_MODELS.md",
    "agent/PROGRAMS.md",
    "agent/STAGED.md",
    "agent/SIMULATION.md",
    "eval/tasks/README.md",
    "flows/COMMANDS.md",
    "flows/EXPERIMENTS.md",
    "flows/SERVICE.md",
    "flows/operation/README.md",
    "notebooks/PUBLISHED_RUNS.md",
    "reports/BREAKDOWNS.md",
    "reports/MEASUREMENTS.md",
    "reports/NUMBERS.md",
    "reports/TABLES.md",
    "reports/WHY.md",
    "reports/cases/README.md",
    "tests/walkthrough/README.md",
)

PAGES = {name: (ROOT / name).read_text() for name in (*LONGEST, *OTHERS)}
"""Text of every page by its path."""

WRITTEN = {name: text for name, text in PAGES.items() if name != "CHANGELOG.md"}
"""The pages that describe the current state; the changelog also describes earlier ones."""

COMMANDS = PAGES["flows/COMMANDS.md"]
EXPERIMENTS = PAGES["flows/EXPERIMENTS.md"]
MANUAL = PAGES["tests/walkthrough/README.md"]


def commands() -> list[str]:
    """Return every command; those of a group include its name, such as `import mini`."""
    found = []
    for name, command in get_command(app).commands.items():  # type: ignore[attr-defined]
        inner = getattr(command, "commands", None)
        found += [f"{name} {sub}" for sub in inner] if inner else [name]
    return found


def options() -> set[str]:
    """Return every long option of every command."""
    found: set[str] = set()
    for command in get_command(app).commands.values():  # type: ignore[attr-defined]
        for each in getattr(command, "commands", {"": command}).values():
            for parameter in each.params:
                found.update(parameter.opts, parameter.secondary_opts)
    return {name for name in found if name.startswith("--")}


def variables() -> list[str]:
    """Return every environment variable that the programs and the tests read."""
    found: set[str] = set()
    for package in ("agent", "eval", "flows", "reports", "tests"):
        for path in (ROOT / package).rglob("*.py"):
            source = path.read_text()
            tree = ast.parse(source if "DURABENCH_" in source else "")
            texts = (node.value for node in ast.walk(tree) if isinstance(node, ast.Constant))
            names = (text for text in texts if isinstance(text, str))
            found |= {name for name in names if re.fullmatch(r"DURABENCH_[A-Z_]*[A-Z]", name)}
    return sorted(found)


def anchors(page: str) -> set[str]:
    """Return the anchors of a page's headings, as links refer to them."""
    headings = re.findall(r"^#+ (.*)$", page, re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading).lower().replace(" ", "-") for heading in headings}


def links(page: str) -> list[str]:
    """Return the targets of a page's links inside the repository."""
    return [link for link in re.findall(r"\]\(([^)]+)\)", PAGES[page]) if "://" not in link]


def broken(page: str) -> list[str]:
    """Return the broken links of a page, including links to missing headings."""
    found = []
    for link in links(page):
        target, _, anchor = link.partition("#")
        path = (ROOT / page).parent / target if target else ROOT / page
        if not path.exists() or (anchor and anchor not in anchors(path.read_text())):
            found.append(link)
    return found


@pytest.mark.parametrize("page", LONGEST)
def test_a_page_is_short(page: str) -> None:
    """A page that is meant to be read from top to bottom stays within its maximum length."""
    assert len(PAGES[page].splitlines()) <= LONGEST[page]


def test_every_page_is_checked() -> None:
    """This file lists every page of the repository, except prompts, tasks and approved reports."""
    listed = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md"]
    there = subprocess.check_output(listed, cwd=ROOT, text=True).splitlines()
    others = re.compile(
        r"agent/(arms/\w+|capabilities|cells|ptc)/|eval/tasks/(tasks|repos|base|polyglot)/"
        r"|tests/reports/approved/"
    )
    assert {name for name in there if not others.match(name)} == {*PAGES}


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page: str) -> None:
    """The files, folders and headings that a page links to exist."""
    assert broken(page) == []


def test_the_readme_leads_to_every_page() -> None:
    """Every page can be reached from the README by following links."""
    found, waiting = set(), ["README.md"]
    while waiting:
        page = waiting.pop()
        if page in found or page not in PAGES:
            continue
        found.add(page)
        for link in links(page):
            path = ((ROOT / page).parent / link.partition("#")[0]).resolve()
            waiting.append(path.relative_to(ROOT).as_posix())
    assert found == {*PAGES}


@pytest.mark.parametrize("command", commands())
def test_the_page_of_commands_has_every_command(command: str) -> None:
    """Each command has a row in a table of flows/COMMANDS.md."""
    assert f"| `durabench {command}" in COMMANDS


def test_every_command_of_a_page_exists() -> None:
    """The pages mention no command that the program does not have."""
    groups = "agents|images|import|job|pipeline"
    calls = rf"(?:`|\$ (?:\S*/)?)durabench\s+((?:{groups})\s+[a-z]+|[a-z][a-z-]*)"
    named = {
        " ".join(name.split()) for page in WRITTEN.values() for name in re.findall(calls, page)
    }
    assert named
    assert named <= {*commands(), "import"}


def test_every_option_of_the_page_of_commands_exists() -> None:
    """The page mentions no option that the program does not have."""
    named = set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", COMMANDS))
    assert named
    assert named <= options() | {"--help"}


@pytest.mark.parametrize("variable", variables())
def test_every_setting_is_on_a_page(variable: str) -> None:
    """Every environment variable of the programs and the tests is explained on a page."""
    assert any(f"`{variable}" in page for page in WRITTEN.values())


@pytest.mark.parametrize("package", ["agent", "eval", "flows", "reports"])
def test_the_page_of_a_package_has_every_room(package: str) -> None:
    """Each subfolder of a package is listed on the package's page."""
    folders = {path.name for path in (ROOT / package).iterdir() if path.is_dir()}
    rooms = {name for name in folders if name.isidentifier() and not name.startswith("_")}
    page = PAGES[f"{package}/README.md"]
    assert {name for name in rooms if not re.search(rf"`(\w+/)?{name}/", page)} == set()


def test_make_targets_exist() -> None:
    """Every `make` target that a page mentions exists in the Makefile."""
    name = r"[a-z]+(?:-[a-z]+)*"
    makefile = (ROOT / "Makefile").read_text()
    targets = set(re.findall(rf"^({name}):", makefile, re.MULTILINE))
    call = re.compile(rf"(?:`|^\$ )make ({name})", re.MULTILINE)
    named = {target for page in WRITTEN.values() for target in call.findall(page)}
    assert {"demo", "test"} <= named <= targets


def test_the_experiments_of_the_pages_are_valid() -> None:
    """The README's experiment is valid by itself and with each block of the pages."""
    from flows.experiments import declaration

    written, *more = re.findall(r"```yaml\n(.*?)```", PAGES["README.md"], re.DOTALL)
    whole = yaml.safe_load(written)
    assert declaration.parse(whole, "README").primary is not None
    blocks = re.findall(r"```yaml\n(.*?)```", EXPERIMENTS, re.DOTALL)
    assert blocks
    for block in map(yaml.safe_load, [*more, *blocks]):
        changed = {**whole, **block}
        if "arms" in block:
            changed["primary"] = None
        assert declaration.parse(changed, "EXPERIMENTS")


def test_the_page_of_experiments_has_every_field() -> None:
    """Every field of an experiment's declaration is explained on a page."""
    from flows.experiments.declaration import Experiment

    known = EXPERIMENTS + PAGES["README.md"]
    missing = {f for f in Experiment.model_fields if not re.search(rf"(`|^){f}\b", known, re.M)}
    assert missing == set()


def test_the_manual_lists_its_tests_in_order() -> None:
    """The manual lists every test of its folder in the order of the files."""
    written = [
        name
        for path in sorted(
            (ROOT / "tests" / "walkthrough").glob("test_*.py"),
            key=lambda path: int(path.name.split("_")[1]),
        )
        for name in re.findall(r"^(?:async )?def (test_\w+)", path.read_text(), re.MULTILINE)
    ]
    assert re.findall(r"^- `(test_\w+)`$", MANUAL, re.MULTILINE) == written
    assert len(written) >= 25


def test_the_changelog_has_the_released_version() -> None:
    """Each release has a heading with its date.

    The newest release has the version of the package.
    """
    headings = re.findall(r"^## (.*)$", PAGES["CHANGELOG.md"], re.MULTILINE)
    assert all(re.fullmatch(r"Unreleased|\d+\.\d+\.\d+ \(\d{4}-\d\d-\d\d\)", h) for h in headings)
    version = re.search(r'^version = "(.*)"', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    assert version is not None
    released = [heading for heading in headings if heading != "Unreleased"]
    assert released[0].startswith(f"{version[1]} (")


@pytest.mark.parametrize(
    ("page", "declared"), [("flows/COMMANDS.md", OperatorTimings), ("CONTRIBUTING.md", Timings)]
)
def test_a_page_has_every_timing(page: str, declared: type[OperatorTimings]) -> None:
    """A page lists each timing of its readers with its default and its reason, in their order."""
    rows = re.findall(r"^\| `DURABENCH_\w+_S`.*", PAGES[page], re.MULTILINE)
    assert rows == [
        f"| `{variable(name)}` | {getattr(Timings(), name):g} | {' '.join(reason.split())} |"
        for name, reason in reasons(declared).items()
    ]


def test_each_door_has_its_module_and_its_test() -> None:
    """A door that is moved takes its row of the table with it."""
    _, _, table = PAGES["SECURITY.md"].partition("## Doors")
    rows = [line.split("|") for line in table.partition("## Walls")[0].splitlines() if "`" in line]
    assert len(rows) == 13
    for row in rows:
        for cell in (row[2], row[4]):
            paths = [ROOT / name for name in re.findall(r"`([^`]+)`", cell)]
            folder = paths[0].parent
            assert all(path.exists() or (folder / path.name).exists() for path in paths), row
