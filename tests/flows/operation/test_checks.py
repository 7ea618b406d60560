"""`durabench doctor --repo` shows what is detected in a repository."""

from pathlib import Path

from typer.testing import CliRunner

from flows.cli.app import app


def shown(path: Path) -> list[str]:
    """Return the lines that the command prints for a folder, without their levels' padding."""
    done = CliRunner().invoke(app, ["doctor", "--repo", str(path)])
    assert done.exit_code == 0, done.output
    return [" ".join(line.split()) for line in done.stdout.splitlines()]


def test_the_commands_of_a_repository_are_shown(tmp_path: Path) -> None:
    """Each command is a line, and so is each one that is not detected."""
    (tmp_path / "go.mod").write_text("module a")
    (tmp_path / "a_test.go").write_text("")
    assert shown(tmp_path) == [
        "ok project: go (go.mod, a_test.go)",
        "ok install: go mod download",
        "ok build: go build ./...",
        "ok tests: go test -json ./... (results are read as go)",
        "ok lint: go vet ./...",
    ]


def test_nothing_detected_is_said(tmp_path: Path) -> None:
    """An empty folder has no project, and a project without tests has no test command."""
    assert shown(tmp_path) == [
        "note project: nothing detected; name its test command with `durabench job --verify`"
    ]
    (tmp_path / "setup.py").write_text("")
    assert "note tests: nothing detected; name a command with `durabench job --verify`" in shown(
        tmp_path
    )


def test_a_missing_folder_is_one_line(tmp_path: Path) -> None:
    """The exit code is that of wrong usage."""
    done = CliRunner().invoke(app, ["doctor", "--repo", str(tmp_path / "none")])
    assert done.exit_code == 2
    assert done.stderr == f"durabench: --repo {tmp_path}/none: there is no such folder\n"
